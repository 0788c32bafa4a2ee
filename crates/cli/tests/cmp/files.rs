//! `seekless cmp` beyond GNU cmp: own options, options of FreeBSD, large files, files that change.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::common::place::{Ended, Place, assert_contains};

const MIB: usize = 1 << 20;

fn place() -> Place {
    let place = Place::new();
    place.file("one", b"abc\ndef\n");
    place.file("other", b"abc\ndeX\n");
    place
}

fn run(place: &Place, words: &str) -> (Option<i32>, String, String) {
    let mut command = place.command();
    command.env("LC_ALL", "C").arg("cmp").args(words.split_whitespace());
    let Ended {
        code, stdout, stderr, ..
    } = Ended::of(command.spawn().unwrap());
    (code, stdout, stderr)
}

fn said(code: i32, stdout: &str, stderr: &str) -> (Option<i32>, String, String) {
    (Some(code), stdout.to_owned(), stderr.to_owned())
}

#[test]
fn cmp_speaks_as_seekless_cmp_and_ends_as_cmp() {
    let place = place();
    assert_eq!(
        run(&place, "one other"),
        said(1, "one other differ: char 7, line 2\n", "")
    );
    assert_eq!(run(&place, "one one"), said(0, "", ""));
    let missing = "seekless cmp: none: No such file or directory\n";
    assert_eq!(run(&place, "one none"), said(2, "", missing));
    let misused = "seekless cmp: options -x and -s are incompatible\n\
        seekless cmp: Try 'seekless cmp --help' for more information.\n";
    assert_eq!(run(&place, "-sx one other"), said(2, "", misused));
}

#[test]
fn cmp_says_byte_where_the_locale_is_not_that_of_posix() {
    let place = place();
    let mut command = place.command();
    command.env("LC_ALL", "C.UTF-8").args(["cmp", "one", "other"]);
    assert_eq!(
        Ended::of(command.spawn().unwrap()).stdout,
        "one other differ: byte 7, line 2\n"
    );
}

#[test]
fn cmp_x_counts_from_zero_in_hexadecimal() {
    let place = place();
    assert_eq!(run(&place, "-x one other"), said(1, "00000006 66 58\n", ""));
    assert_eq!(run(&place, "-xl -i6 one other"), said(1, "00000000 66 58\n", ""));
}

#[test]
fn cmp_z_looks_at_sizes_first() {
    let place = place();
    place.file("longer", b"abc\ndef\nghi\n");
    assert_eq!(run(&place, "-z one longer"), said(1, "one longer differ: size\n", ""));
    assert_eq!(run(&place, "-sz one longer"), said(1, "", ""));
    assert_eq!(
        run(&place, "-z one other"),
        said(1, "one other differ: char 7, line 2\n", "")
    );
}

#[test]
fn cmp_h_compares_the_texts_of_links() {
    let place = place();
    symlink("one", place.path("link")).unwrap();
    symlink("onf", place.path("dangling")).unwrap();
    assert_eq!(
        run(&place, "-h link dangling"),
        said(1, "link dangling differ: char 3, line 1\n", "")
    );
    assert_eq!(run(&place, "-h link link"), said(0, "", ""));
    assert_eq!(run(&place, "link one"), said(0, "", ""));
    let no_link = said(2, "", "seekless cmp: one: Not a symbolic link\n");
    assert_eq!(run(&place, "-h link one"), no_link);
    assert_eq!(run(&place, "-h one link"), no_link);
    assert_eq!(
        run(&place, "-h one other"),
        said(1, "one other differ: char 7, line 2\n", "")
    );
    assert_eq!(run(&place, "-h"), run(&place, "--help"), "without a file, it helps");
    assert_eq!(run(&place, "-hs").0, Some(2));
}

#[test]
fn cmp_json_is_one_object_with_s_too() {
    let place = place();
    for (words, code, verdict) in [
        ("--json one other", 1, "differ"),
        ("--json -s one one", 0, "equal"),
        ("--json one none", 2, "failed"),
    ] {
        let (found, stdout, _) = run(&place, words);
        let object: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(
            (found, object["verdict"].as_str()),
            (Some(code), Some(verdict)),
            "{stdout}"
        );
        assert_eq!(object["exit_code"], code, "{stdout}");
    }
    let (_, stdout, _) = run(&place, "--json one other");
    let object: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&object["offset"], &object["line"]), (&6.into(), &2.into()), "{stdout}");
    assert_eq!(run(&place, "--json -l one other").0, Some(2));
}

#[test]
fn cmp_explains_how_it_compared() {
    let place = place();
    for (words, word) in [
        ("--explain one one", ": identity: "),
        ("--explain one other", ": stream: "),
        ("--explain --method compare/sync one other", ": compare/sync,"),
        (
            "--explain --method compare/sync,identity=ignore one one",
            "identity=ignore: ",
        ),
    ] {
        let (_, _, stderr) = run(&place, words);
        assert!(
            stderr.starts_with("seekless cmp: ") && stderr.contains(word),
            "{words}: {stderr}"
        );
    }
    place.file("large", &vec![1; 2 * MIB]);
    place.file("same", &vec![1; 2 * MIB]);
    let (_, _, stderr) = run(&place, "--explain large same");
    assert_contains(
        &stderr,
        &[
            "  predicted ",
            ", took ",
            ": 100 %, from the system",
            " ns per byte, measured ",
        ],
    );
    assert_eq!(run(&place, "--method compare/sync /dev/null one").0, Some(2));
    assert_eq!(run(&place, "--method read/sync one other").0, Some(2));
    assert_eq!(run(&place, "--method nonsense one other").0, Some(2));
}

#[test]
fn cmp_counts_lines_of_large_files_for_every_method() {
    let place = Place::new();
    let mut content: Vec<u8> = (0..9 * MIB)
        .map(|n| if n % 61 == 0 { b'\n' } else { n as u8 | 128 })
        .collect();
    place.file("one", &content);
    place.file("shorter", &content[..8 * MIB + 5]);
    let at = 8 * MIB + 77;
    content[at] ^= 1;
    place.file("other", &content);
    let line = content[..at]
        .iter()
        .fold(1, |line, &byte| line + u32::from(byte == b'\n'));
    let lines = content[..8 * MIB + 5]
        .iter()
        .fold(0, |lines, &byte| lines + u32::from(byte == b'\n'));
    for method in [
        "",
        "--method compare/sync",
        "--method compare/mmap,block=1M",
        "--method compare/io_uring,depth=2",
    ] {
        let (code, stdout, stderr) = run(&place, &format!("{method} one other"));
        if stderr.contains("not available here") {
            println!("skipped: {stderr}");
            continue;
        }
        let expected = format!("one other differ: char {}, line {line}\n", at + 1);
        assert_eq!((code, stdout), (Some(1), expected), "{method}: {stderr}");
        let (code, _, stderr) = run(&place, &format!("{method} shorter one"));
        let bytes = 8 * MIB + 5;
        let expected = format!(
            "seekless cmp: EOF on shorter after byte {bytes}, in line {}\n",
            lines + 1
        );
        assert_eq!((code, stderr), (Some(1), expected), "{method}");
    }
}

#[test]
fn cmp_ends_by_the_signal_where_its_reader_is_gone() {
    let place = Place::new();
    place.file("one", &vec![1; MIB]);
    place.file("other", &vec![2; MIB]);
    let mut command = place.command();
    let mut child = command
        .args(["cmp", "-l", "one", "other"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.signal(), output.stderr.as_slice()), (Some(13), &b""[..]));
}

#[test]
fn cmp_of_files_that_change_meanwhile_ends_without_a_crash() {
    let place = Place::new();
    let len = 24 * MIB;
    let (one, other) = (place.path("one"), place.path("other"));
    for round in 0..6 {
        fs::write(&one, vec![7; len]).unwrap();
        fs::write(&other, vec![7; len]).unwrap();
        let child = place.start("cmp one other");
        let file = OpenOptions::new().write(true).open(&other).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(round));
        // After a truncation, a map shows zeros; a longer file has its end elsewhere.
        file.set_len(if round % 2 == 0 { 3 * MIB as u64 } else { 2 * len as u64 })
            .unwrap();
        let ended = Ended::of(child);
        let complaint = &ended.stderr;
        match ended.code {
            Some(0) => assert_eq!(complaint, ""),
            Some(1) => assert!(complaint.contains("EOF on o") && ended.stdout.is_empty(), "{complaint}"),
            Some(2) => assert!(complaint.contains("other: "), "{complaint}"),
            code => panic!("{code:?} {complaint}"),
        }
    }
}
