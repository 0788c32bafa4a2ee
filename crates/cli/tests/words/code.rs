//! `seekless methods METHOD --code LANGUAGE`: the programs are compiled and run, and their results compared with the
//! files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::place::{Place, assert_contains, is_long, set_mode};

/// Every mechanism of Linux, and every option once.
const METHODS: [&str; 43] = [
    "read/sync",
    "read/sync,direct,block=1M",
    "read/sync,dontcache",
    "read/sync,hint=sequential",
    "read/sync,hint=sequential-noreuse",
    "read/sync,hint=willneed",
    "read/sync,hint=readahead",
    "read/double-buffer,hint=willneed",
    "read/double-buffer,direct",
    "read/posix-aio",
    "read/posix-aio,direct,hint=willneed",
    "read/io_uring",
    "read/io_uring,direct,hint=willneed",
    "read/mmap",
    "read/mmap,block=1M,hint=populate",
    "read/mmap,hint=willneed",
    "read/threads=2",
    "read/threads=3,direct,hint=sequential",
    "write/sync",
    "write/sync,direct,preallocate=both,fsync",
    "write/sync,dontcache,preallocate=truncate",
    "write/sync,block=64K,fdatasync-each",
    "write/sync,direct,block=64K,fdatasync-each",
    "write/double-buffer,direct,write-through",
    "write/double-buffer,preallocate=allocate",
    "write/posix-aio,direct,fsync",
    "write/io_uring",
    "write/io_uring,direct,depth=4,write-through",
    "write/mmap,fsync",
    "write/mmap,block=1M,preallocate=both",
    "copy/sync,hint=willneed",
    "copy/sync,direct,fsync",
    "copy/double-buffer",
    "copy/double-buffer,direct,preallocate=allocate",
    "copy/io_uring",
    "copy/io_uring,direct,hint=willneed",
    "copy/mmap,hint=sequential",
    "copy/mmap,block=1M",
    "copy/splice,hint=willneed",
    "copy/sendfile,block=256K,write-through",
    "copy/copy_file_range",
    "copy/copy_file_range,block=1M,hint=sequential,fsync",
    "copy/reflink,fsync",
];

/// By language, the line that a user replaces, and work instead that needs each byte: their sum.
const WORK: [(&str, &str, &str); 3] = [
    (
        "c",
        "uint64_t part = length; // Replace this by your work.",
        "uint64_t part = 0; for (size_t at = 0; at < length; at++) { part += (unsigned char)buffer[at]; }",
    ),
    (
        "python",
        "part = length  # Replace this by your work.",
        "part = sum(buffer[:length])",
    ),
    (
        "rust",
        "let part = bytes.len() as u64; // Replace this by your work.",
        "let part = bytes.iter().map(|byte| u64::from(*byte)).sum();",
    ),
];

/// Ends in the middle of a sector, of a block and of a thread's range.
const BYTES: usize = (1 << 20) + 123_457;

/// How the program of a method is run once it is built; `None` if it cannot be built here.
type Built = Option<PathBuf>;

/// The text of the program for a method; `None`, after checking the refusal, if there is none.
fn program(place: &Place, method: &str, language: &str) -> Option<String> {
    let ended = place.call(&["methods", method, "--code", language]);
    if ended.code == Some(0) {
        assert_contains(&ended.stdout, &["Calls, in order"]);
        return Some(ended.stdout);
    }
    assert!(ended.stderr.contains("works"), "{method}: {}", ended.stderr);
    None
}

/// Whether a program was refused because the kernel or file system lacks something.
fn is_refused(method: &str, output: &Output) -> bool {
    let text = String::from_utf8_lossy(&output.stderr).to_lowercase();
    let may_be = ["direct", "dontcache", "reflink", "io_uring", "populate"];
    let refusals = [
        "not supported",
        "invalid argument",
        "not permitted",
        "not implemented",
        "inappropriate ioctl",
    ];
    may_be.iter().any(|what| method.contains(what)) && refusals.iter().any(|refusal| text.contains(refusal))
}

/// Runs a method's program on files of several sizes, and compares its output with the data.
fn check(place: &Place, method: &str, language: &str, program: &Path) {
    let data: Vec<u8> = (0..BYTES as u64).map(|at| (at * at / 7 + at / 4096) as u8).collect();
    for bytes in [0, 1, BYTES] {
        let data = &data[..bytes];
        let (source, target) = (place.file("source", data), place.path("target"));
        let mut command = Command::new(program);
        match &method[..4] {
            "read" => command.arg(&source),
            "writ" => command
                .args([target.as_os_str(), bytes.to_string().as_ref()])
                .stdin(File::open(&source).unwrap()),
            _ => command.args([&source, &target]),
        };
        let output = command.output().unwrap();
        if is_refused(method, &output) {
            println!(
                "skipped: {method} in {language}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            let _ = fs::remove_file(target);
            return;
        }
        assert!(
            output.status.success(),
            "{method} in {language}, {bytes} bytes: {output:?}"
        );
        if method.starts_with("read") {
            let sum: u64 = data.iter().map(|byte| u64::from(*byte)).sum();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert_eq!(printed.trim_end(), sum.to_string(), "{method} in {language}");
        } else {
            assert!(
                fs::read(&target).unwrap() == data,
                "{method} in {language}, {bytes} bytes"
            );
            fs::remove_file(target).unwrap();
        }
    }
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

/// Makes the programs of a language, builds them, and checks each.
fn check_all(language: &str, build: impl Fn(&Path, &[(&str, String)]) -> Vec<Built>) {
    let place = Place::new();
    let programs = METHODS
        .iter()
        .filter_map(|method| Some((*method, program(&place, method, language)?)));
    let (_, placeholder, work) = WORK.iter().find(|(known, ..)| *known == language).unwrap();
    let programs = programs.map(|(method, text)| {
        assert_eq!(text.contains(placeholder), method.starts_with("read"), "{text}");
        (method, text.replace(placeholder, work))
    });
    let programs: Vec<(&str, String)> = programs.collect();
    assert!(programs.len() > 30);
    for ((method, _), runnable) in programs.iter().zip(build(&place.directory(), &programs)) {
        let Some(runnable) = runnable else { continue };
        check(&place, method, language, &runnable);
    }
}

fn written(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn code_in_python_moves_the_bytes_of_every_method() {
    if !is_there("python3") {
        return println!("skipped: there is no python3");
    }
    check_all("python", |directory, programs| {
        let file = |(index, (_, text)): (usize, &(&str, String))| {
            let path = written(directory, &format!("{index}.py"), text);
            set_mode(&path, 0o755);
            Some(path)
        };
        programs.iter().enumerate().map(file).collect()
    });
}

#[test]
fn code_in_c_moves_the_bytes_of_every_method() {
    if !is_there("cc") {
        return println!("skipped: there is no cc");
    }
    let has_ring = Path::new("/usr/include/liburing.h").exists();
    let compiled = |directory: &Path, index: usize, method: &str, text: &str| {
        if method.contains("io_uring") && !has_ring {
            println!("skipped: {method} in C: there is no liburing.h");
            return None;
        }
        let source = written(directory, &format!("{index}/program.c"), text);
        let build = text
            .lines()
            .find_map(|line| line.strip_prefix("// Build: cc "))
            .unwrap();
        let mut compiler = Command::new("cc");
        compiler.arg("-Werror").args(build.split(' '));
        let output = compiler.current_dir(source.parent().unwrap()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{method}: {errors}");
        Some(source.with_extension(""))
    };
    check_all("c", |directory, programs| {
        let programs = programs.iter().enumerate();
        programs
            .map(|(index, (method, text))| compiled(directory, index, method, text))
            .collect()
    });
}

#[test]
fn code_in_rust_moves_the_bytes_of_every_method() {
    // Kept from run to run, so that the crates that they use are compiled once.
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    check_all("rust", |_, programs| {
        let _ = fs::remove_dir_all(package.join("src"));
        for (index, (_, text)) in programs.iter().enumerate() {
            written(&package, &format!("src/bin/program{index}.rs"), text);
        }
        let ring = programs.iter().find(|(method, _)| method.contains("io_uring"));
        let crates = ring.map_or("", |(_, text)| text);
        let listed = crates.lines().skip_while(|line| !line.starts_with("// Cargo.toml"));
        let crates: Vec<&str> = listed.filter_map(|line| line.strip_prefix("//   ")).collect();
        let head = "[package]\nname = \"programs\"\nedition = \"2024\"\n[workspace]\n";
        written(&package, "Cargo.toml", &format!("{head}{}\n", crates.join("\n")));
        // The versions that were fetched for the workspace.
        written(&package, "Cargo.lock", include_str!("../../../../Cargo.lock"));
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--offline", "--quiet", "--bins"])
            .current_dir(&package);
        cargo
            .env("RUSTFLAGS", "-Dwarnings")
            .env("CARGO_TARGET_DIR", package.join("target"));
        let output = cargo.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let built = |index| Some(package.join(format!("target/debug/program{index}")));
        (0..programs.len()).map(built).collect()
    });
}

/// The shortest of some times: other activity only adds to them.
fn shortest(seconds: Vec<f64>) -> f64 {
    seconds.into_iter().fold(f64::INFINITY, f64::min)
}

mod alone {
    use super::*;

    /// Of a file in memory, where nothing hides what a program costs. The start of a program, which a trial does not have, is
    /// what it takes for an empty file.
    #[test]
    fn code_is_as_fast_as_the_methods_in_the_lab() {
        const ROUNDS: usize = 7;
        const MOST: f64 = 1.1;
        const METHODS: [&str; 4] = [
            "read/sync",
            "read/sync,block=1M",
            "read/double-buffer,block=128K",
            "read/double-buffer,block=1M",
        ];
        if !is_long() {
            return println!("skipped: it measures for a minute; SEEKLESS_TEST_LONG=1 runs it");
        }
        let place = Place::new();
        let (big, empty) = (place.path("big"), place.file("empty", b""));
        let data: Vec<u8> = (0..1_u64 << 20).map(|at| (at * at / 7 + at / 4096) as u8).collect();
        fs::write(&big, data.repeat(512)).unwrap();
        let text = format!("name = \"x\"\nabout = \"\"\n[[contest]]\noperation = \"read\"\nmethods = {METHODS:?}\n");
        place.file("mine.toml", text.as_bytes());
        let mut of_lab = METHODS.map(|_| Vec::new());
        // Before the programs, and after them.
        let mut measure = |place: &Place| {
            let bench = "bench mine.toml --file big --rounds 4 --cache warm --alone --json";
            let run = seekless_record::from_json(place.succeeds(bench).stdout.as_bytes()).unwrap();
            for trial in &run.trials {
                of_lab[trial.entry].push(trial.seconds);
            }
        };
        measure(&place);
        let mut of_programs = Vec::new();
        for method in METHODS {
            let programs = timed_programs(&place, method).into_iter();
            of_programs.push(
                programs
                    .map(|program| (program, [Vec::new(), Vec::new()]))
                    .collect::<Vec<_>>(),
            );
        }
        for _ in 0..ROUNDS {
            for ((_, program), seconds) in of_programs.iter_mut().flatten() {
                for (file, seconds) in [&big, &empty].into_iter().zip(seconds) {
                    let started = std::time::Instant::now();
                    assert!(Command::new(&*program).arg(file).output().unwrap().status.success());
                    seconds.push(started.elapsed().as_secs_f64());
                }
            }
        }
        measure(&place);
        for ((method, programs), lab) in METHODS.into_iter().zip(of_programs).zip(of_lab) {
            let lab = shortest(lab);
            for ((language, _), seconds) in programs {
                let [big, empty] = seconds.map(shortest);
                let ratio = (big - empty) / lab;
                let told = format!("{method} in {language}: {ratio:.2} of the lab's {lab:.3} s");
                println!("{told}");
                assert!(ratio <= MOST, "{told}");
            }
        }
    }
}

/// The programs of a method as they are printed, built with the languages that are there.
fn timed_programs(place: &Place, method: &str) -> Vec<(&'static str, PathBuf)> {
    let directory = place.path(method.replace(['/', ',', '='], "-"));
    fs::create_dir(&directory).unwrap();
    let text = |language| program(place, method, language).unwrap();
    let mut programs = Vec::new();
    if is_there("python3") {
        let path = written(&directory, "program.py", &text("python"));
        set_mode(&path, 0o755);
        programs.push(("python", path));
    }
    let mut compile = |language, compiler: &str, name: &str, arguments: &[&str]| {
        if is_there(compiler) {
            let source = written(&directory, name, &text(language));
            let mut command = Command::new(compiler);
            let output = command.args(arguments).current_dir(&directory).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            programs.push((language, source.with_extension("")));
        }
    };
    compile("c", "cc", "in-c.c", &["-O2", "-pthread", "in-c.c", "-o", "in-c"]);
    compile(
        "rust",
        "rustc",
        "in-rust.rs",
        &["-O", "--edition=2024", "in-rust.rs", "-o", "in-rust"],
    );
    programs
}
