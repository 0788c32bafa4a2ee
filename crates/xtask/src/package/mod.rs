//! `cargo xtask package`: what a release consists of, in `target/package/`. [`check`] installs each package into an empty
//! directory and uses it once.
//!
//! Names have the version and the target. Times are those of the commit, or `SOURCE_DATE_EPOCH`, and the program has no
//! paths of the machine that built it.

mod check;
mod notices;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::built::{beside, cargo_command, root};
use crate::process::{capture, run as run_program, value_name};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is installed into `target/tools`.
const CARGO_DEB: &str = "cargo-deb@3.8.0";
const CARGO_CYCLONEDX: &str = "cargo-cyclonedx@0.5.9";
const MATURIN: &str = "maturin==1.16.0";

const OUTPUT: &str = "target/package";

/// Where the content of the packages lies; the assets in the manifest of `seekless-cli` name it.
const STAGED: &str = "target/staged/seekless";

/// The scripts that complete, by shell.
const SCRIPTS: [[&str; 2]; 3] = [
    ["bash", "seekless.bash"],
    ["zsh", "_seekless"],
    ["fish", "seekless.fish"],
];

/// The features of the command in packages, beyond those that it has by default.
const FEATURES: &str = "seekless-cli/catalogue";

const PAGES: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Which packages to make.
#[derive(Args)]
pub struct Arguments {
    /// Only this part
    #[arg(long, value_enum)]
    only: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The static program with manual, completions and licences, as .tar.gz
    Archive,
    /// The same as a Debian package
    Deb,
    /// The Python wheel
    Wheel,
    /// The bill of materials of the program, in the format of `CycloneDX`
    Sbom,
    /// `cargo publish --dry-run` of all crates
    Publish,
}

/// Makes the packages, checks them, and writes their checksums.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(cfg!(target_os = "linux"), "packages are made on Linux");
    let mut parts = Vec::from_iter(arguments.only);
    if parts.is_empty() {
        parts.extend(Part::value_variants());
        // Of earlier versions, for one.
        let _ = fs::remove_dir_all(root().join(OUTPUT));
    }
    let release = Release::new()?;
    if parts.contains(&Part::Archive) || parts.contains(&Part::Deb) {
        release.stage()?;
    }
    for part in parts {
        println!("\n=== {} ===", value_name(&part));
        match part {
            Part::Archive => check::archive(&release.archive()?)?,
            Part::Deb => check::deb(&release.deb()?)?,
            Part::Wheel => check::wheel(&release.wheel()?)?,
            Part::Sbom => check::sbom(&release.sbom()?, &release.target)?,
            // What is not committed yet is packed, too. Cargo would put its files among ours.
            Part::Publish => run_program(&mut command(
                "cargo publish --workspace --dry-run --locked --allow-dirty --target-dir target/publish",
            ))?,
        }
    }
    let sums = "sha256sum -- $(find seekless* -maxdepth 0 -type f) > SHA256SUMS && sha256sum --check SHA256SUMS";
    run_program(command("sh -c").arg(sums).current_dir(&release.output))
}

/// A command, started at the top of the workspace, of words without spaces.
fn command(words: &str) -> Command {
    let mut words = words.split(' ');
    let program = words.next().unwrap_or_default();
    let cargo = (program == "cargo").then(cargo_command);
    let mut command = cargo.unwrap_or_else(|| Command::new(program));
    command.args(words).current_dir(root());
    command
}

/// Builds a package without the paths of this machine in it.
fn build(package: &[&str], table: &str, flags: &[&str]) -> Result<()> {
    let home = env::var("CARGO_HOME").or_else(|_| env::var("HOME").map(|home| home + "/.cargo"))?;
    let top = root().canonicalize()?.display().to_string();
    let remap = [(home, "/cargo"), (top, "/seekless")].map(|(from, to)| format!("--remap-path-prefix={from}={to}"));
    let flags = [flags, &remap.each_ref().map(String::as_str)].concat();
    let mut cargo = command("cargo build --locked --profile dist --package");
    cargo.args(package).arg("--config");
    run_program(cargo.arg(format!("{table}.rustflags={flags:?}")))
}

/// Builds the C library, and lays out what the Debian package has of it.
fn stage_library() -> Result<()> {
    build(&["seekless-capi"], "build", &[])?;
    let staged = root().join("target/staged/c");
    let _ = fs::remove_dir_all(&staged);
    let mut install = command("crates/capi/install");
    install.arg(beside("dist")?).arg("/usr").env("DESTDIR", staged);
    run_program(install.env("LIBDIR", format!("lib/{}-linux-gnu", env::consts::ARCH)))
}

struct Release {
    target: String,
    /// Seconds since 1970.
    epoch: String,
    output: PathBuf,
}

impl Release {
    fn new() -> Result<Self> {
        let of_commit = || capture(&mut command("git log -1 --format=%ct"));
        let epoch = env::var("SOURCE_DATE_EPOCH").or_else(|_| of_commit());
        let output = root().join(OUTPUT);
        fs::create_dir_all(&output)?;
        Ok(Self {
            target: format!("{}-unknown-linux-gnu", env::consts::ARCH),
            epoch: epoch.context("set SOURCE_DATE_EPOCH")?.trim().to_owned(),
            output: output.canonicalize()?,
        })
    }

    fn file(&self, extension: &str) -> PathBuf {
        let name = format!("seekless-{VERSION}-{}.{extension}", self.target);
        self.output.join(name)
    }

    /// Builds the program, and lays out what the packages contain.
    fn stage(&self) -> Result<()> {
        let staged = root().join(STAGED);
        let _ = fs::remove_dir_all(&staged);
        fs::create_dir_all(staged.join("completions"))?;
        let program = staged.join("seekless");
        fs::copy(self.build_program()?, &program)?;
        let mut man = Command::new(&program);
        run_program(man.args(["generate", "man", "--folder"]).arg(staged.join("man")))?;
        for [shell, name] in SCRIPTS {
            let script = capture(Command::new(&program).args(["generate", "completions", shell]))?;
            fs::write(staged.join("completions").join(name), script)?;
        }
        for page in PAGES {
            fs::copy(root().join(page), staged.join(page))?;
        }
        Ok(fs::write(staged.join("THIRD-PARTY.txt"), notices::of(&self.target)?)?)
    }

    /// The program as it is released. It is static, so it needs no library. Its addresses are fixed: relocating its tables
    /// would take a tenth of the time of comparing two small files.
    fn build_program(&self) -> Result<PathBuf> {
        let flags = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"];
        let package = ["seekless-cli", "--features", FEATURES, "--target", &self.target];
        build(&package, &format!("target.{}", self.target), &flags)?;
        beside(&format!("{}/dist/seekless", self.target))
    }

    fn archive(&self) -> Result<PathBuf> {
        let (epoch, archive) = (&self.epoch, self.file("tar.gz"));
        let mut tar = command("tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX");
        tar.args(["--use-compress-program=gzip -9n", &format!("--mtime=@{epoch}")]);
        tar.arg(format!("--transform=s,^seekless,seekless-{VERSION}-{},", self.target));
        tar.args(["--directory", "target/staged", "seekless", "--file"]);
        run_program(tar.arg(&archive))?;
        Ok(archive)
    }

    fn deb(&self) -> Result<PathBuf> {
        stage_library()?;
        let package = self.file("deb");
        let mut deb = self.tool(CARGO_DEB)?;
        deb.args("deb --quiet --no-build --no-strip --no-dbgsym --package seekless-cli --output".split(' '));
        run_program(deb.arg(&package))?;
        Ok(package)
    }

    fn wheel(&self) -> Result<PathBuf> {
        run_program(&mut command("python3 -m venv target/tools/python"))?;
        run_program(command("target/tools/python/bin/pip install --quiet").arg(MATURIN))?;
        let _ = fs::remove_dir_all(root().join("target/wheel"));
        let wheel = "target/tools/python/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir target/wheel ./python";
        let tools = root().canonicalize()?.join("target/tools/python/bin");
        let mut wheel = command(wheel);
        wheel.env("PATH", format!("{}:{}", tools.display(), env::var("PATH")?));
        // The name then says with which versions of the C library it works.
        wheel.env("MATURIN_PEP517_ARGS", "--profile release --compatibility pypi");
        run_program(wheel.env("SOURCE_DATE_EPOCH", &self.epoch))?;
        let mut made = fs::read_dir(root().join("target/wheel"))?;
        let made = made.next().context("there is no wheel")??;
        let wheel = self.output.join(made.file_name());
        fs::copy(made.path(), &wheel)?;
        Ok(wheel)
    }

    fn sbom(&self) -> Result<PathBuf> {
        let mut cyclonedx = self.tool(CARGO_CYCLONEDX)?;
        cyclonedx.args("cyclonedx --quiet --format json --spec-version 1.5 --describe binaries --target".split(' '));
        run_program(cyclonedx.args([&self.target, "--features", FEATURES]))?;
        let top = root().canonicalize()?;
        let text = fs::read_to_string(top.join("crates/cli/seekless_bin.cdx.json"))?;
        let text = text.replace(&*top.to_string_lossy(), "");
        // There is a document beside the manifest of each package with a program or a library for others.
        run_program(command("sh -c").arg("rm -f python/*.cdx.json crates/*/*.cdx.json"))?;
        fs::write(self.file("cdx.json"), text)?;
        Ok(self.file("cdx.json"))
    }

    /// A tool of cargo in its version, installed if it is not yet.
    fn tool(&self, version: &str) -> Result<Command> {
        run_program(command("cargo install --quiet --locked --root target/tools").arg(version))?;
        let name = version.split('@').next().unwrap_or_default();
        let mut tool = command(&format!("target/tools/bin/{name}"));
        tool.env("SOURCE_DATE_EPOCH", &self.epoch);
        Ok(tool)
    }
}
