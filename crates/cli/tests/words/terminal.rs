//! What the command prints on a terminal: the line of progress, colors, and pages of 60 columns.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::common::place::{Place, words};
use crate::common::terminal::Terminal;

const FULL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/testdata/full-run.json");
const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/testdata/runs");

/// The screen in the end.
fn screen(printed: &str) -> Vec<String> {
    let (mut lines, mut at) = (vec![Vec::new()], 0);
    let mut rest = printed.chars();
    while let Some(character) = rest.next() {
        let line = lines.last_mut().unwrap();
        match character {
            '\r' => at = 0,
            '\n' => lines.push(Vec::new()),
            '\u{1b}' => {
                let sequence: String = rest.by_ref().take_while(|it| !it.is_ascii_alphabetic()).collect();
                // The only sequence without a number: it erases to the end of the line.
                if sequence == "[" {
                    line.truncate(at);
                }
            }
            character => {
                line.truncate(at);
                line.push(character);
                at += 1;
            }
        }
    }
    lines.into_iter().map(String::from_iter).collect()
}

/// Runs `cmp` of standard input, which comes slowly, with a file of 40 MB that differs in its last byte.
fn compare_slowly(columns: u16, arguments: &[&str]) -> String {
    let place = Place::new();
    let bytes = vec![b'x'; 40_000_000];
    place.file("a-file-with-a-long-name-\u{1b}[2J-of-control-characters", &bytes);
    let mut command = place.command();
    command.arg("cmp").args(arguments).stdin(Stdio::piped());
    command.args(["-", "a-file-with-a-long-name-\u{1b}[2J-of-control-characters"]);
    Terminal::of(columns).start(command, |input| {
        let mut input = input.unwrap();
        let (first, last) = bytes.split_at(20_000_000);
        // A command with `--quiet` may end at any time.
        let _ = input.write_all(first);
        thread::sleep(Duration::from_millis(700));
        let _ = input.write_all(&last[1..]);
        let _ = input.write_all(b"y");
    })
}

#[test]
fn progress_comes_after_half_a_second_and_is_erased() {
    for columns in [100, 60, 20] {
        let printed = compare_slowly(columns, &[]);
        let drawn: Vec<&str> = printed.split('\r').filter(|part| part.contains("comparing")).collect();
        assert!(!drawn.is_empty(), "{printed:?}");
        for part in drawn {
            let line = screen(part).concat();
            assert!(line.chars().count() < usize::from(columns), "{columns}: {line:?}");
            assert!(!part.contains("\u{1b}[2J"), "{part:?}");
            if columns == 100 {
                assert!(line.contains("━") && line.contains("of 38.1 MiB, "), "{line:?}");
            }
        }
        let expected = "- a-file-with-a-long-name-\\u{1b}[2J-of-control-characters differ: char 40000000, line 1";
        assert_eq!(screen(&printed)[0].replace("byte", "char"), expected);
    }
}

#[test]
fn progress_and_rows_are_never_on_one_line() {
    let printed = compare_slowly(100, &["-l"]);
    assert!(printed.contains("comparing"), "{printed:?}");
    assert_eq!(screen(&printed)[0].trim(), "40000000 171 170");
}

#[test]
fn progress_is_not_shown_if_quick_or_silent() {
    assert_eq!(compare_slowly(100, &["-s"]), "");
    let place = Place::new();
    let bytes = vec![b'x'; 30_000_000];
    place.files("one other", &bytes);
    assert_eq!(Terminal::run(100, &place, &["cmp", "one", "other"]), "");
}

#[test]
fn color_goes_by_option_then_environment_then_config() {
    let place = Place::new();
    let run = |name: &str, value: &str, arguments: &[&str]| {
        let mut command = place.command();
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        let output = command.env(name, value).args(arguments).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for arguments in [
        "methods compare",
        "holes --help",
        "cmp --help",
        "cmp -r --help",
        "no-such-command",
    ] {
        let arguments = &words(arguments)[..];
        let with = |option: &'static str| [arguments, &["--color", option]].concat();
        let before = |option: &'static str| [&[option], arguments].concat();
        let is_colored = |text: &str| {
            assert!(text.len() > 20, "{arguments:?}: {text}");
            text.contains('\u{1b}')
        };
        assert!(!is_colored(&run("A", "1", arguments)));
        assert!(is_colored(&run("NO_COLOR", "1", &with("always"))), "{arguments:?}");
        let plain = run("CLICOLOR_FORCE", "1", &with("never"));
        assert!(!is_colored(&plain), "{arguments:?}");
        assert!(is_colored(&run("A", "1", &before("--color=always"))), "{arguments:?}");
        assert!(is_colored(&Terminal::run(100, &place, &with("auto"))), "{arguments:?}");
        let plain = Terminal::run(100, &place, &with("never"));
        assert!(!is_colored(&plain), "{arguments:?}");
    }
    for (configured, arguments, variable, is_colored) in [
        ("always", "--help", "A", true),
        ("always", "cmp --help", "A", true),
        ("always", "--help", "NO_COLOR", false),
        ("always", "--color never --help", "A", false),
        ("never", "--help", "A", false),
        ("never", "--help", "CLICOLOR_FORCE", true),
    ] {
        let text = format!("color = \"{configured}\"\n");
        place.file("../config/seekless/config.toml", text.as_bytes());
        let printed = run(variable, "1", &words(arguments));
        assert_eq!(
            printed.contains('\u{1b}'),
            is_colored,
            "{configured} {variable}: {printed}"
        );
    }
    let refused = place.fails(2, "cmp --color sometimes one other");
    refused.warns("invalid --color value 'sometimes'");
    let refused = place.run("runs --color sometimes");
    refused.warns("[possible values: auto, always, never]");
}

#[test]
fn pages_fit_sixty_columns() {
    let place = Place::new();
    place.bench("--size 2M").succeeded();
    place.bench("").succeeded();
    for directory in ["one", "other", "pair"] {
        place.file(format!("{directory}/file"), directory.as_bytes());
    }
    place.file("pair/file-2", b"pair");
    place.file("big", &vec![7; 3_000_000]);
    place.sparse("sparse", 1 << 30);
    place.file(
        "updates",
        b"{\"offset\": 0, \"text\": \"O\"}\n{\"offset\": 90000, \"text\": \"O\"}\n",
    );
    fs::copy(FULL, place.path("full.json")).unwrap();
    let mut lines: Vec<String> = [
        "bench read --size 1M --rounds 1 --methods read/sync,block=128K --all",
        "bench --list",
        "methods",
        "storage .",
        "cache show .",
        "cache show --all .",
        "cache warm --top 2 .",
        "cache drop big",
        "cmp -r one other",
        "cmp --same-size .",
        "dupes --action remove --keep newest --dry-run pair",
        "dupes --action hardlink --keep newest --yes pair",
        "dupes undo --list",
        "dupes undo",
        "holes show --scan big sparse",
        "holes show --map sparse",
        "holes dig --dry-run big sparse",
        "update big --from updates --dry-run",
        "update big --from updates",
        "runs",
        "runs show latest",
        "runs compare full.json full2.json --anyway --all",
        "runs table --all",
    ]
    .map(str::to_owned)
    .into();
    fs::copy(FULL, place.path("full2.json")).unwrap();
    for entry in fs::read_dir(STORED).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        fs::copy(format!("{STORED}/{name}"), place.path(&name)).unwrap();
        lines.push(format!("runs show {name}"));
        lines.push(format!("runs show --all {name}"));
        place.succeeds(&["runs", "import", &name]);
    }
    let mut wide = Vec::new();
    for line in &lines {
        let printed = Terminal::run(60, &place, &words(line));
        assert!(!screen(&printed).concat().is_empty(), "{line}");
        wide.extend(screen(&printed).iter().filter_map(|row| {
            // A path or a name without a place to break is wider.
            let words = row.split([' ', ',']).map(|word| word.chars().count());
            let longest = words.max().unwrap_or(0);
            (row.chars().count() > 60 && longest <= 40).then(|| format!("{line}:\n{row}"))
        }));
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}
