//! The command as a library: several calls in one process, with streams of their own, print what the program prints.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use seekless_cli::{Call, Streams, run};
use tempfile::{TempDir, tempdir, tempfile};

/// What a call printed, and its exit code.
#[derive(Debug, PartialEq)]
struct Printed {
    output: String,
    error: String,
    code: i32,
}

impl Printed {
    /// What `call` prints, with `input` to read.
    fn by(input: &str, call: impl FnOnce([File; 3]) -> i32) -> Self {
        let mut files = [(); 3].map(|()| tempfile().unwrap());
        files[0].write_all(input.as_bytes()).unwrap();
        files[0].rewind().unwrap();
        let code = call(files.each_ref().map(|file| file.try_clone().unwrap()));
        let [_, output, error] = files.map(|mut file| {
            let mut text = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            text
        });
        Self { output, error, code }
    }

    fn by_library(words: &[&str], input: &str) -> Self {
        Self::by(input, |[input, output, error]| {
            run(Call::new(words, Streams::new(input, output, error))).into()
        })
    }

    fn by_program(words: &[&str], input: &str) -> Self {
        Self::by(input, |[input, output, error]| {
            let mut program = Command::new(env!("CARGO_BIN_EXE_seekless"));
            program.arg0(words[0]).args(&words[1..]);
            let status = program.stdin(input).stdout(output).stderr(error).status();
            status.unwrap().code().unwrap()
        })
    }
}

/// Fails unless the library prints what the program prints.
fn compare(words: &[&str], input: &str) -> Printed {
    // What works on a busy storage may change in between, and what is free there does.
    for _ in 0..3 {
        let [mut library, mut program] = [Printed::by_library, Printed::by_program].map(|by| by(words, input));
        if words.contains(&"storage") {
            for printed in [&mut library, &mut program] {
                printed.output.retain(|character| !character.is_ascii_digit());
            }
        }
        if library == program {
            return library;
        }
        println!("{library:?}\n{program:?}");
    }
    panic!("{words:?}: not the same");
}

/// Two trees: `one/a` and `two/a` differ, `one/b`, `two/b` and `one/deep/b` are equal.
fn place() -> TempDir {
    // A call that is not the process maps files only if this allows it.
    seekless::allow_mapping().unwrap();
    let place = tempdir().unwrap();
    fs::create_dir_all(place.path().join("one/deep")).unwrap();
    fs::create_dir(place.path().join("two")).unwrap();
    for (name, text) in [
        ("one/a", "1\n2\n"),
        ("two/a", "1\n3\n"),
        ("one/b", "b"),
        ("two/b", "b"),
        ("one/deep/b", "b"),
    ] {
        fs::write(place.path().join(name), text).unwrap();
    }
    place
}

/// A line of words; `.` before a slash is the place.
fn words(place: &Path, line: &str) -> Vec<String> {
    let word = |word: &str| match word.strip_prefix("./") {
        Some(path) => place.join(path).display().to_string(),
        None => word.to_owned(),
    };
    line.split(' ').map(word).collect()
}

#[test]
fn many_calls_in_one_process_print_what_the_program_prints() {
    let place = place();
    for (line, input, code) in [
        ("seekless cmp ./one/a ./one/a", "", 0),
        ("seekless cmp ./one/a ./two/a", "", 1),
        ("seekless cmp -l ./one/a -", "1\n3\n", 1),
        ("cmp ./one/a", "1\n2\n3", 1),
        ("seekless cmp ./one/a ./missing", "", 2),
        ("seekless cmp --json ./one/a ./two/a", "", 1),
        ("seekless cmp --help --color always", "", 0),
        ("seekless cmp --help", "", 0),
        ("seekless cmp -r ./one ./two", "", 1),
        ("seekless cmp -r -X - ./one ./two", "a\ndeep\n", 0),
        ("seekless cmp -r --help", "", 0),
        ("seekless cmp -r ./one", "", 2),
        ("seekless --version", "", 0),
        ("seekless --help", "", 0),
        ("seekless", "", 2),
        ("seekless bench --no-such", "", 2),
        ("seekless dupes remove", "", 2),
        ("seekless dupes --color always ./", "", 0),
        ("seekless dupes ./", "", 0),
        ("seekless dupes --json ./", "", 0),
        ("seekless dupes act list", "", 2),
        ("seekless methods --color always", "", 0),
        ("seekless methods", "", 0),
        ("seekless methods read_plain --code c", "", 0),
        ("seekless storage ./", "", 0),
        ("seekless storage --json ./", "", 0),
        ("seekless holes show ./one/b", "", 0),
        ("seekless update ./one/missing", "{}", 2),
        ("seekless cp -v ./missing ./three", "", 1),
        ("seekless generate completions zsh", "", 0),
        ("seekless generate man", "", 0),
        ("seekless suggest bash seekless c", "", 0),
        ("seekless report ./one/a", "", 2),
    ] {
        let words = words(place.path(), line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(compare(&words, input).code, code, "{line}");
    }
}

#[test]
fn calls_of_several_threads_take_turns() {
    let place = place();
    let lines = [
        "seekless cmp -l ./one/a ./two/a",
        "seekless dupes ./",
        "seekless --help --color always",
        "seekless x",
    ];
    thread::scope(|scope| {
        for line in lines {
            let words = words(place.path(), line);
            scope.spawn(move || {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let first = compare(&words, "");
                for _ in 0..20 {
                    assert_eq!(Printed::by_library(&words, ""), first);
                }
            });
        }
    });
}

#[test]
fn output_that_nobody_reads_ends_a_call_and_not_the_process() {
    let place = place();
    // A shell shows a program that SIGPIPE ended as 141; cmp is one.
    for (line, expected) in [
        ("seekless cmp ./one/a ./two/a", 141),
        ("seekless dupes ./", 0),
        ("seekless --help", 0),
    ] {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let nothing = || File::open("/dev/null").unwrap();
        let streams = Streams::new(nothing(), write, nothing());
        assert_eq!(run(Call::new(words(place.path(), line), streams)), expected, "{line}");
    }
}

/// What a call prints on a terminal of 60 columns.
fn on_terminal(call: impl FnOnce(File)) -> String {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = Winsize {
        ws_row: 50,
        ws_col: 60,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let name = OsStr::from_bytes(name.as_bytes());
    let theirs = File::options().read(true).write(true).open(name).unwrap();
    let reader = thread::spawn(move || {
        let mut printed = Vec::new();
        // Once nobody has it open, a terminal gives an error.
        let _ = File::from(ours).read_to_end(&mut printed);
        String::from_utf8(printed).unwrap()
    });
    call(theirs);
    reader.join().unwrap()
}

#[test]
fn help_and_tables_are_as_wide_as_the_terminal_of_the_call() {
    let nothing = || File::options().read(true).write(true).open("/dev/null").unwrap();
    for line in [
        "cmp --help --color never",
        "dupes --help",
        "sim list",
        "sim list --color never",
    ] {
        let words = || ["seekless"].into_iter().chain(line.split(' '));
        let library = on_terminal(|output| {
            let streams = Streams::new(nothing(), output, nothing());
            assert_eq!(run(Call::new(words(), streams)), 0);
        });
        let program = on_terminal(|output| {
            let mut program = Command::new(env!("CARGO_BIN_EXE_seekless"));
            program
                .args(words().skip(1))
                .stdin(nothing())
                .stdout(output)
                .stderr(nothing());
            assert!(program.status().unwrap().success());
        });
        assert_eq!(library, program, "{line}");
        // clap does not break the line of usage.
        let is_narrow = library.lines().all(|line| line.chars().count() < 70);
        assert!(is_narrow || !line.ends_with("never"), "{library}");
    }
}

/// Runs a test of this program by itself, in a home of its own.
fn at_home(name: &str) {
    let home = tempdir().unwrap();
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args([name, "--exact", "--ignored", "--nocapture"]);
    for (variable, directory) in [("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data"), ("HOME", "")] {
        test.env(variable, home.path().join(directory));
    }
    let done = test.current_dir(home.path()).output().unwrap();
    let printed = String::from_utf8_lossy(&done.stdout);
    let wrong = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && printed.contains("1 passed"),
        "{printed}{wrong}"
    );
}

#[test]
fn the_configuration_of_one_call_is_not_that_of_the_next() {
    at_home("configured");
}

#[test]
#[ignore = "needs a home of its own"]
fn configured() {
    let words = ["seekless", "bench", "--help"];
    let plain = compare(&words, "");
    fs::create_dir_all("config/seekless").unwrap();
    fs::write("config/seekless/config.toml", "budget = \"7m\"\ncolor = \"always\"\n").unwrap();
    let configured = compare(&words, "");
    assert!(configured.output.contains("[default: 7m]") && configured.output.contains('\x1b'));
    fs::remove_file("config/seekless/config.toml").unwrap();
    assert_eq!(compare(&words, ""), plain);
}

#[test]
fn a_bench_starts_the_program_that_its_call_names() {
    at_home("measured");
}

#[test]
#[ignore = "needs a home of its own"]
fn measured() {
    fs::write("file", vec![1; 1 << 20]).unwrap();
    let words = "seekless bench read --file file --rounds 1 --methods read/sync,block=1M";
    let call = |[input, output, error]: [File; 3]| Call::new(words.split(' '), Streams::new(input, output, error));
    let unnamed = Printed::by("", |files| run(call(files)).into());
    assert_eq!(unnamed.code, 2);
    assert!(
        unnamed.error.contains("the file of the program is not known"),
        "{unnamed:?}"
    );
    let named = Printed::by("", |files| {
        run(call(files).with_program(env!("CARGO_BIN_EXE_seekless"))).into()
    });
    assert_eq!(named.code, 0, "{named:?}");
    assert!(named.output.contains("sync block=1M"), "{named:?}");
}
