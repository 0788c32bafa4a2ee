//! Programs in C and C++ call the installed library: those in `programs`, and the examples of `docs/c.md`. They are
//! compiled with all warnings, linked with the shared and with the static library, and run plainly and under valgrind.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const C: [&str; 2] = ["cc", "-std=c11"];
const CPP: [&str; 2] = ["c++", "-std=c++17"];

/// What a static library of Rust needs, as `seekless.pc.in` says.
const PRIVATE: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// A directory below which the library is installed.
struct Installed(TempDir);

impl Installed {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // A program gives up being root, and still finds its files.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let ours = env::current_exe().unwrap();
        let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
        ran(Command::new(install).args([ours.parent().unwrap(), directory.path()]));
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles a program, or says why not.
    fn compile(&self, [compiler, standard]: [&str; 2], source: &Path, is_static: bool) -> Option<PathBuf> {
        let program = self.path(if is_static { "static" } else { "shared" });
        let mut command = Command::new(compiler);
        command
            .arg(standard)
            .args("-Wall -Wextra -Werror -pedantic -g -pthread -I".split(' '));
        command.arg(self.path("include")).arg(source).arg("-o").arg(&program);
        if is_static {
            command.arg(self.path("lib/libseekless.a")).args(PRIVATE);
        } else {
            command.arg("-L").arg(self.path("lib")).arg("-lseekless");
        }
        is_installed(compiler).then(|| ran(&mut command))?;
        Some(program)
    }

    /// Runs a program in an empty directory, plainly and, if linked with the shared library, under valgrind. Returns what
    /// it printed.
    fn run(&self, program: &Path, is_static: bool) -> String {
        let mut printed = Vec::new();
        let mut plain = Command::new(program);
        let mut checked = Command::new("valgrind");
        // std reaches the handle of the main thread by a pointer into it, which valgrind calls possibly lost.
        let leaks = "-q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite";
        let ended = ["--error-exitcode=9", "--child-silent-after-fork=yes"];
        checked.args(leaks.split(' ')).args(ended).arg(program);
        let has_valgrind = !is_static && is_installed("valgrind");
        let commands = [Some(&mut plain), has_valgrind.then_some(&mut checked)];
        for command in commands.into_iter().flatten() {
            let directory = self.path("files");
            fs::create_dir(&directory).unwrap();
            command.arg(&directory).arg(env!("CARGO_PKG_VERSION"));
            command.env("LD_LIBRARY_PATH", self.path("lib")).current_dir(&directory);
            printed.push(String::from_utf8(ran(command).stdout).unwrap());
            fs::remove_dir_all(&directory).unwrap();
        }
        printed.swap_remove(0)
    }
}

/// Runs what must succeed.
fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if !is_there {
        println!("skipped: {program} is not installed");
    }
    is_there
}

fn check(language: [&str; 2], name: &str) {
    let installed = Installed::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    for is_static in [false, true] {
        if let Some(program) = installed.compile(language, &source, is_static) {
            assert_eq!(installed.run(&program, is_static), "all of it\n");
        }
    }
}

#[test]
fn c_program_calls_every_function_and_leaks_nothing() {
    check(C, "all.c");
}

#[test]
fn cpp_program_owns_results_and_passes_lambdas() {
    check(CPP, "all.cpp");
}

#[test]
fn pkg_config_finds_the_installed_library() {
    if !is_installed("pkg-config") {
        return;
    }
    let installed = Installed::new();
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", installed.path("lib/pkgconfig"));
    let told = ran(command.args(["--static", "--cflags", "--libs", "seekless"])).stdout;
    let told = String::from_utf8(told).unwrap();
    let prefix = installed.0.path().display();
    let private = PRIVATE.join(" ");
    assert_eq!(
        told.trim(),
        format!("-I{prefix}/include -L{prefix}/lib -lseekless {private}")
    );
}

/// The blocks of a language in the page, one after the other.
fn examples(language: &str) -> Vec<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/c.md")).unwrap();
    let start = format!("\n```{language}\n");
    let blocks = page.split(start.as_str()).skip(1);
    let blocks = blocks.map(|rest| rest.split_once("\n```").expect("a block has an end").0.to_owned() + "\n");
    blocks.collect()
}

/// Compiles and runs the examples of a language; what each printed.
fn shown(language: [&str; 2], name: &str) -> Vec<String> {
    let installed = Installed::new();
    let examples = examples(name);
    assert!(!examples.is_empty(), "the page has no example in {name}");
    let mut printed = Vec::new();
    for text in examples {
        let source = installed.path("example").with_extension(name);
        fs::write(&source, text).unwrap();
        if let Some(program) = installed.compile(language, &source, false) {
            printed.push(installed.run(&program, false));
        }
    }
    printed
}

#[test]
fn page_in_c_and_cpp_has_examples_that_do_what_they_say() {
    for printed in shown(C, "c") {
        let is_right = printed.starts_with("6 bytes by copy/double-buffer,block=1M: ");
        assert!(is_right, "{printed}");
        let is_right = printed.contains("\nhello\nequal\n") && printed.contains("\nerrno 2, missing: ");
        assert!(is_right, "{printed}");
    }
    for printed in shown(CPP, "cpp") {
        assert!(printed.starts_with("100000 bytes by copy/"), "{printed}");
        assert!(printed.ends_with("\nsum 1000000\n"), "{printed}");
    }
}

#[test]
fn page_in_csharp_has_an_example_that_does_what_it_says() {
    let [text] = &examples("csharp")[..] else {
        panic!("the page has one example in C#");
    };
    let installed = Installed::new();
    let project = installed.path("example");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("Program.cs"), text).unwrap();
    let mut command = if is_installed("dotnet") {
        let settings = "<Project Sdk=\"Microsoft.NET.Sdk\"><PropertyGroup><OutputType>Exe</OutputType>\
                        <TargetFramework>net8.0</TargetFramework></PropertyGroup></Project>";
        fs::write(project.join("example.csproj"), settings).unwrap();
        let mut command = Command::new("dotnet");
        command.arg("run").env("HOME", installed.0.path());
        command
    } else if is_installed("mcs") {
        ran(Command::new("mcs")
            .args(["-warnaserror", "Program.cs"])
            .current_dir(&project));
        let mut command = Command::new("mono");
        command.arg("Program.exe");
        command
    } else {
        return;
    };
    command
        .current_dir(&project)
        .env("LD_LIBRARY_PATH", installed.path("lib"));
    let printed = String::from_utf8(ran(&mut command).stdout).unwrap();
    assert!(printed.starts_with("6 bytes by copy/"), "{printed}");
}
