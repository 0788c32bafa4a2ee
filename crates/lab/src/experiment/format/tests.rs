//! Valid and invalid experiments, and the places that errors name.

use proptest::prelude::*;
use seekless_record::{Draw, ExitCode};

use super::*;
use crate::layout::Layout;

fn parse(text: &str, origin: &str) -> Result<Experiment, ExperimentError> {
    super::parse(text, origin, |program| program != "missing")
}

fn parsed(text: &str) -> Experiment {
    parse(text, "x.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    parse(text, "x.toml").expect_err(text).to_string()
}

/// One of the commands of a contest.
fn command(contest: &ContestPlan, index: usize) -> &Command {
    let mut commands = contest.common.entries.iter().filter_map(|entry| entry.command());
    commands.nth(index).expect("a command")
}

/// A contest with these lines, from line 4 on.
fn with(lines: &str) -> String {
    format!("name = \"x\"\nabout = \"\"\n[[contest]]\n{lines}\n")
}

#[test]
fn what_is_left_out_has_its_default() {
    let read = &parsed(&with("operation = \"read\"\nmethods = [\"read/sync\"]")).contests[0];
    assert_eq!(
        (read.caches.as_slice(), read.sizes.as_slice()),
        ([Cache::Cold].as_slice(), [Size::Auto].as_slice())
    );
    assert_eq!(
        (&*read.common.kernel, read.common.work_ns_per_kib, read.common.target),
        ("count", 0, Target::Fresh)
    );
    let write = &parsed(&with("operation = \"write\"\nmethods = [\"write/sync\"]")).contests[0];
    assert_eq!(
        (write.caches.as_slice(), &*write.common.kernel),
        ([Cache::None].as_slice(), "none")
    );
}

#[test]
fn a_sustained_write_has_one_method_and_nothing_beside() {
    let write = |methods: &str, rest: &str| {
        with(&format!(
            "operation = \"write\"\nsustained = true\nmethods = [{methods}]\n{rest}"
        ))
    };
    assert!(
        parsed(&write("\"write/sync,direct,fsync\"", "")).contests[0]
            .common
            .sustained
    );
    let command = "[[contest.command]]\nname = \"dd\"\nargv = [\"dd\", \"of={target}\"]";
    for (methods, rest) in [
        ("\"write/sync\", \"write/mmap\"", ""),
        ("\"write/sync\"", "target = \"overwrite\""),
        ("\"write/sync,access=random\"", ""),
        ("\"write/sync\"", command),
    ] {
        let error = refused(&write(methods, rest));
        assert!(error.contains("line 5") || error.contains(":5:"), "{error}");
        assert!(error.contains("one method, which writes fresh files"), "{error}");
    }
}

#[test]
fn everything_is_read() {
    let text = with(
        r#"operation = "copy"
methods = ["copy_plain", "copy/sync", "copy/sendfile"]
blocks = ["4K", "1M"]
sizes = ["8M", "auto", "8M"]
cache = ["warm", "over", "cold"]
target = "overwrite"
[[contest.command]]
name = "cp"
argv = ["cp", "{file}", "{target}"]"#,
    );
    let contest = &parsed(&text).contests[0];
    let methods: Vec<String> = contest.methods().map(|method| method.to_string()).collect();
    assert_eq!(methods, ["copy/sync,block=4K", "copy/sync,block=1M", "copy/sendfile"]);
    assert_eq!(contest.sizes, [Size::Bytes(8 << 20), Size::Auto]);
    assert_eq!(contest.caches, [Cache::Warm, Cache::Over, Cache::Cold]);
    assert_eq!(
        (contest.common.target, command(contest, 0).argv.len()),
        (Target::Overwrite, 3)
    );
}

#[test]
fn errors_name_line_and_column() {
    for (text, start) in [
        ("name = \"x\"\nabout = 3", "x.toml:2:9: "),
        ("name = \"x\"\nabout = \"ä\" x", "x.toml:2:13: "),
        ("name = \"x\"\nabot = \"\"", "x.toml:2:1: "),
        ("name = \"../x\"\nabout = \"\"\ncontest = []", "x.toml:1:8: "),
        ("name = \"x\"\nabout = \"\"\ncontest = []", "x.toml:3:11: "),
        (&with("operation = \"raed\"\nmethods = []"), "x.toml:4:13: "),
        (
            &with("operation = \"read\"\nmethods = [\"read/sync\",\n \"read/snyc\"]"),
            "x.toml:6:2: ",
        ),
        (
            &with("operation = \"read\"\nmethods = [\"read/sync\"]\nsizes = [\"8M\", \"8Q\"]"),
            "x.toml:6:16: ",
        ),
    ] {
        let error = refused(text);
        assert!(error.starts_with(start), "{error} does not start with {start}");
    }
}

#[test]
fn errors_name_the_nearest() {
    let error = refused(&with("operation = \"raed\"\nmethods = []"));
    assert!(error.contains("did you mean `read`?"), "{error}");
    let error = refused(&with("operation = \"read\"\nmethods = [\"read/snyc\"]"));
    assert!(error.contains("`read/sync`"), "{error}");
    let error = refused(&with("operation = \"read\"\nmethods = [\"read/sync\"]\ncahce = []"));
    assert!(error.contains("`cache`"), "{error}");
    let error = refused(&with("operation = \"read\"\nmethods = [\"read/mmmap*\"]"));
    assert!(error.contains("`read/mmap`"), "{error}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let read = |line: &str| {
        refused(&with(&format!(
            "operation = \"read\"\nmethods = [\"read/sync\"]\n{line}"
        )))
    };
    assert!(read("target = \"fresh\"").contains("`target` is not allowed"));
    assert!(read("cache = [\"none\"]").contains("cold, warm, over"));
    assert!(read("cache = []").contains("at least one"));
    assert!(read("sizes = [\"0\"]").contains("at least one byte"));
    assert!(read("blocks = [\"2G\"]").contains("block must be between 1 and 1G"));
    assert!(read("work = -1").contains("x.toml:6:8"));
    assert!(read("work = 2_000_000").contains("at most"));
    assert!(read("[[contest.command]]\nname = \"cat\"\nargv = [\"cat\"]").contains("`{file}`"));
    assert!(read("[[contest.command]]\nname = \"cat\"\nargv = []").contains("program"));
    assert!(read("files = 0").contains("1 to 1000000 files"));
    let empty = refused(&with("operation = \"read\""));
    assert!(empty.contains("at least one method or command"), "{empty}");
    let other = refused(&with("operation = \"read\"\nmethods = [\"write/sync\"]"));
    assert!(other.contains("in a read contest"), "{other}");
    let kernel = refused(&with(
        "operation = \"write\"\nmethods = [\"write/sync\"]\nkernel = \"count\"",
    ));
    assert!(kernel.contains("not for `write`"), "{kernel}");
    let work = refused(&with("operation = \"copy\"\nmethods = [\"copy/sync\"]\nwork = 1"));
    assert!(work.contains("`work` is not allowed"), "{work}");
}

#[test]
fn a_comparison_says_where_its_files_differ() {
    let text = with(
        r#"operation = "compare"
methods = ["compare/sync", "simple-compare", "unlocked-compare,hint=sequential"]
differ = ["none", "last", "none"]
read-ahead-kib = [0, 128, 0]
[[contest.command]]
name = "cmp"
argv = ["cmp", "{one}", "{other}"]
note = "as usual"
[[contest.command]]
name = "wc"
before = ["cp", "{one}", "{target}"]
argv = ["wc", "{target}"]
exit-code = "success""#,
    );
    let contest = &parsed(&text).contests[0];
    assert_eq!(contest.differs, [Differ::None, Differ::Last]);
    assert_eq!(contest.read_ahead_kib, [Some(0), Some(128)]);
    assert_eq!(command(contest, 0).exit_code, ExitCode::Verdict);
    assert_eq!(command(contest, 1).exit_code, ExitCode::Success);
    let labels = contest.common.entries.iter().filter_map(|entry| entry.label.as_deref());
    let labels: Vec<&str> = labels.collect();
    assert_eq!(labels, ["simple-compare"]);
}

#[test]
fn comparisons_that_make_no_sense_are_refused() {
    let compare = |line: &str| {
        refused(&with(&format!(
            "operation = \"compare\"\nmethods = [\"compare/sync\"]\n{line}"
        )))
    };
    assert!(compare("differ = [\"itself\"]").contains("identity=ignore"));
    assert!(compare("differ = [\"frist\"]").contains("did you mean `first`?"));
    assert!(compare("differ = []").contains("at least one"));
    assert!(compare("kernel = \"count\"").contains("option of the method"));
    assert!(compare("target = \"fresh\"").contains("`target` is not allowed"));
    assert!(compare("work = 1").contains("`work` is not allowed"));
    assert!(compare("read-ahead-kib = [2_000_000]").contains("at most"));
    let command = |lines: &str| compare(&format!("[[contest.command]]\nname = \"cmp\"\n{lines}"));
    assert!(command("argv = [\"cmp\", \"{one}\"]").contains("`{other}`"));
    assert!(command("argv = [\"diff\", \"{one-tree}\"]").contains("`{other-tree}`"));
    assert!(command("argv = [\"cmp\", \"{one}\", \"{other}\"]\nbefore = []").contains("program"));
    assert!(command("argv = [\"cmp\", \"{one}\", \"{other}\"]\nexit-code = \"0\"").contains("success, verdict"));
    let read = "operation = \"read\"\nmethods = [\"read/sync\"]\n";
    assert!(refused(&with(&format!("{read}differ = [\"first\"]"))).contains("allowed only for `compare`"));
    let command = "[[contest.command]]\nname = \"a\"\nargv = [\"a\", \"{file}\"]\n";
    assert!(refused(&with(&format!("{read}{command}exit-code = \"verdict\""))).contains("verdict"));
    assert!(refused(&with(&format!("{read}{command}before = [\"a\"]"))).contains("`before` is allowed only"));
}

#[test]
fn an_update_says_what_it_changes() {
    let update = |lines: &str| {
        let lines = format!("operation = \"update\"\nmethods = [\"update/sync\", \"update/planned\"]\n{lines}");
        parse(&with(&lines), "x.toml").map(|experiment| experiment.contests[0].clone())
    };
    let usual = update("").unwrap();
    assert_eq!(
        (usual.caches, usual.common.target),
        (vec![Cache::Warm], Target::Overwrite)
    );
    let pattern = usual.common.updates.unwrap();
    assert_eq!(
        (pattern.bytes, pattern.every_bytes, pattern.draw.name()),
        (4, 400, "ascending")
    );
    let given = update("updates = { bytes = 8, every = 8, draw = \"repeating\" }")
        .unwrap()
        .common
        .updates;
    assert_eq!(
        given.map(|given| (given.every_bytes, given.draw.name())),
        Some((8, "repeating"))
    );
    let long = update("updates = { bytes = 4096 }").unwrap().common.updates;
    assert_eq!(
        long.map(|long| long.every_bytes),
        Some(4096),
        "the usual step would overlap"
    );
    for (lines, words) in [
        ("updates = { bytes = 8, every = 4 }", "overlap"),
        ("updates = { bytes = 0 }", "x.toml:6:21: "),
        ("updates = { draw = \"shufled\" }", "did you mean `shuffled`"),
        ("updates = { order = 1 }", "order"),
        ("cache = [\"over\"]", "valid here: warm, cold"),
        ("target = \"fresh\"", "an existing file"),
        ("work = 5", "`work` is not allowed"),
        ("differ = [\"none\"]", "allowed only for `compare`"),
        (
            "[[contest.command]]\nname = \"a\"\nargv = [\"a\", \"{target}\"]",
            "`{updates}`",
        ),
    ] {
        let error = update(lines).expect_err(lines).to_string();
        assert!(error.contains(words), "{lines}: {error}");
    }
    let read = refused(&with("operation = \"read\"\nmethods = [\"read/sync\"]\nupdates = {}"));
    assert!(read.contains("`updates` is not allowed for `read`"), "{read}");
}

const READ: &str = "operation = \"read\"\nmethods = [\"read/sync\"]";

#[test]
fn a_key_that_is_unknown_missing_or_of_another_type_is_answered_with_what_to_write() {
    for (line, answer) in [
        (
            "size = [\"64M\"]",
            "x.toml:6:1: unknown key `size` (did you mean `sizes`?); the keys are operation, methods, ",
        ),
        (
            "sizes = \"64M\"",
            "x.toml:6:9: `sizes` cannot be string \"64M\"; write, for example, `sizes = [\"64M\"]`",
        ),
        (
            "sizes = [64]",
            "x.toml:6:10: `sizes` cannot be integer `64`; write, for example, `sizes = [\"64M\"]`",
        ),
        (
            "work = \"5\"",
            "x.toml:6:8: `work` cannot be string \"5\"; write, for example, `work = 100`",
        ),
        (
            "work = -4",
            "x.toml:6:8: `work` cannot be integer `-4`; write, for example, `work = 100`",
        ),
        ("blocks = \"4K\"", "x.toml:6:10: `blocks` cannot be "),
        ("updates = { every = \"x\" }", "x.toml:6:21: `every` cannot be "),
        (
            "[contest.command]\nname = \"x\"",
            "write, for example, `[[contest.command]]`",
        ),
        (
            "[[contest.command]]\nname = \"x\"",
            "the key `argv` is missing; write, for example, `argv = ",
        ),
    ] {
        let error = refused(&with(&format!("{READ}\n{line}")));
        assert!(error.contains(answer), "{line}: {error}");
    }
    let error = refused(&with(READ).replace("[[contest]]", "[contest]"));
    assert!(error.ends_with("; write, for example, `[[contest]]`"), "{error}");
    let error = refused("");
    assert!(
        error.ends_with("the key `name` is missing; write, for example, `name = \"mine\"`"),
        "{error}"
    );
}

#[test]
fn a_key_that_nothing_in_the_contest_uses_is_refused() {
    let cat = "[[contest.command]]\nname = \"cat\"\nargv = [\"cat\", \"{file}\"]";
    let refusals = [
        (
            "operation = \"read\"\nmethods = [\"read/mmap\", \"read/sync,block=1M\"]\nblocks = [\"4K\"]".to_owned(),
            "x.toml:6:10: no method of this contest takes `blocks`",
        ),
        (
            format!("operation = \"read\"\nblocks = [\"4K\"]\n{cat}"),
            "takes `blocks`",
        ),
        (
            format!("operation = \"read\"\nkernel = \"lines\"\n{cat}"),
            "`kernel` is only for methods",
        ),
        (
            format!("operation = \"read\"\nwork = 5\n{cat}"),
            "`work` is only for methods",
        ),
        (
            "operation = \"write\"\nmethods = [\"write/sync\"]\nread-ahead-kib = [0]".to_owned(),
            "a write reads nothing",
        ),
        (
            "operation = \"write\"\nmethods = [\"write/sync\"]\nsustained = true\nfiles = 5".to_owned(),
            "x.toml:7:9: a sustained write has no `files`",
        ),
    ];
    for (lines, answer) in refusals {
        let error = refused(&with(&lines));
        assert!(error.contains(answer), "{lines}: {error}");
    }
    let some = "operation = \"read\"\nmethods = [\"read/mmap\", \"read/sync\"]\nblocks = [\"4K\", \"8K\"]";
    assert_eq!(parsed(&with(some)).contests[0].methods().count(), 3);
}

#[test]
fn a_program_that_is_missing_is_an_error_unless_it_is_optional() {
    let command = |rest: &str| with(&format!("{READ}\n[[contest.command]]\nname = \"it\"\n{rest}"));
    let argv = "argv = [\"missing\", \"{file}\"]";
    let error = refused(&command(argv));
    let answer =
        "x.toml:8:8: there is no program `missing`; if the rest can be measured without it, add `optional = true`";
    assert_eq!(error, answer);
    parsed(&command(&format!("{argv}\noptional = true")));
    parsed(&command("argv = [\"{seekless}\", \"{file}\"]"));
    let is_there = super::super::command::is_there;
    assert!(is_there("sh") && is_there("/bin/sh"));
    assert!(!is_there("a-program-that-nobody-has") && !is_there("/etc/passwd") && !is_there("/"));
}

#[test]
fn the_columns_of_a_document_are_read() {
    let column = |lines: &str| {
        let contest = with("operation = \"update\"\nmethods = [\"update/sync\"]");
        parse(&format!("{contest}[[column]]\n{lines}"), "x.toml").map(|experiment| experiment.columns[0].clone())
    };
    let found =
        column("name = \"Random\"\noperation = \"update\"\ndraw = \"shuffled\"\nmethods = \"update/*\"").unwrap();
    assert_eq!((found.experiment.as_str(), found.name.as_str()), ("x", "Random"));
    assert_eq!((found.draw.map(Draw::name), found.target), (Some("shuffled"), None));
    for (lines, words) in [
        (
            "name = \"a\\tb\"\noperation = \"read\"\nmethods = \"*\"",
            "visible characters",
        ),
        (
            "name = \"a\"\noperation = \"raed\"\nmethods = \"*\"",
            "did you mean `read`",
        ),
        (
            "name = \"a\"\noperation = \"read\"\nmethods = \"[\"",
            "is not a valid glob",
        ),
        (
            "name = \"a\"\noperation = \"read\"\nmethods = \"*\"\ndraw = \"x\"",
            "invalid draw `x`",
        ),
    ] {
        let error = column(lines).expect_err(lines).to_string();
        assert!(error.contains(words), "{lines}: {error}");
    }
}

#[test]
fn a_contest_says_how_its_files_are_laid_out_and_how_much_memory_they_may_take() {
    let read = "operation = \"read\"\nmethods = [\"read/sync\"]\n";
    let text = format!(
        "{read}cache = [\"over\"]\nmemory = \"512M\"\nlayout = [\"dense\", \"2x(4K hole,4K data)\", \"dense\"]"
    );
    let contest = &parsed(&with(&text)).contests[0];
    let layouts: Vec<String> = contest.layouts.iter().map(ToString::to_string).collect();
    assert_eq!(layouts, ["dense", "2 x (4K hole, 4K data)"]);
    assert_eq!(contest.common.memory_bytes, Some(512 << 20));
    assert_eq!(parsed(&with(read)).contests[0].layouts, [Layout::Dense]);
    let refused = |lines: &str| refused(&with(&format!("{read}{lines}")));
    assert!(refused("layout = [\"4K gap\"]").contains("x.toml:6:11: `4K gap`"));
    assert!(refused("layout = []").contains("at least one"));
    assert!(refused("memory = \"512M\"").contains("cache state `over`"));
    assert!(refused("cache = [\"over\"]\nmemory = \"1M\"").contains("at least 32M"));
    let write = "operation = \"write\"\nmethods = [\"write/sync\"]\nlayout = [\"dense\"]";
    assert!(
        parse(&with(write), "x")
            .unwrap_err()
            .to_string()
            .contains("allowed only for `read`, `copy` and `compare`")
    );
}

#[test]
fn only_commands_compare_files_with_holes() {
    let compare = |lines: &str| {
        with(&format!(
            "operation = \"compare\"\nlayout = [\"4K hole,4K data\"]\n{lines}"
        ))
    };
    let cmp = "[[contest.command]]\nname = \"cmp\"\nargv = [\"cmp\", \"{one}\", \"{other}\"]";
    assert_eq!(parsed(&compare(cmp)).contests[0].layouts.len(), 1);
    for lines in [
        "methods = [\"compare/sync\"]".to_owned(),
        format!("differ = [\"none\"]\n{cmp}"),
    ] {
        let error = refused(&compare(&lines));
        assert!(
            error.contains("x.toml:5:10: for `compare`, `layout` is allowed only"),
            "{error}"
        );
    }
}

#[test]
fn an_existing_directory_has_its_own_files_and_is_read_by_commands() {
    let command = |argument: &str| format!("[[contest.command]]\nname = \"find\"\nargv = [\"find\", \"{argument}\"]");
    let tree = |lines: &str| with(&format!("operation = \"read\"\ntree = \"/usr\"\n{lines}"));
    let found = &parsed(&tree(&command("{tree}"))).contests[0];
    assert_eq!(found.common.tree.as_deref(), Some("/usr"));
    for (lines, answer) in [
        (
            &*format!("files = 5\n{}", command("{tree}")),
            "x.toml:6:9: `files` is not allowed beside `tree`",
        ),
        (
            &format!("sizes = [\"4K\"]\n{}", command("{tree}")),
            "`sizes` is not allowed beside `tree`",
        ),
        (
            &format!("layout = [\"dense\"]\n{}", command("{tree}")),
            "`layout` is not allowed beside `tree`",
        ),
        ("methods = [\"read/sync\"]", "x.toml:5:8: `tree` is only for commands"),
        (&command("{file}"), "must contain `{tree}`"),
    ] {
        let error = refused(&tree(lines));
        assert!(error.contains(answer), "{lines}: {error}");
    }
    let empty = refused(&tree(&command("{tree}")).replace("/usr", ""));
    assert!(empty.contains("`tree` must name a directory"), "{empty}");
    let compare = "operation = \"compare\"\ntree = \"/usr\"\nmethods = [\"compare/sync\"]";
    let compare = refused(&with(compare));
    assert!(
        compare.contains("`tree` is allowed only for `read`, not for `compare`"),
        "{compare}"
    );
}

#[test]
fn only_regular_files_of_a_sensible_size_are_read() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(
        read(directory.path()),
        Err(ExperimentError::NotRegular { .. })
    ));
    assert!(matches!(
        read(&directory.path().join("none")),
        Err(ExperimentError::Unreadable { .. })
    ));
    assert!(matches!(
        read(Path::new("/dev/null")),
        Err(ExperimentError::NotRegular { .. })
    ));
    let path = directory.path().join("large.toml");
    fs::File::create(&path).unwrap().set_len(LIMIT_BYTES + 1).unwrap();
    assert!(matches!(read(&path), Err(ExperimentError::TooLarge { .. })));
    fs::write(&path, [0xff]).unwrap();
    assert!(matches!(read(&path), Err(ExperimentError::Unreadable { .. })));
}

#[test]
fn the_example_in_the_docs_is_one() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments.md");
    let docs = fs::read_to_string(docs).unwrap();
    let examples: Vec<&str> = docs
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(!examples.is_empty());
    for example in examples {
        assert!(!parsed(example).contests.is_empty());
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = parse(&text, "x.toml");
    }

    #[test]
    fn no_text_near_the_format_panics(
        lines in proptest::collection::vec(
            proptest::sample::select(vec![
                "name = \"x\"", "about = \"ü\"", "[[contest]]", "[contest]", "[[contest.command]]", "operation = \"read\"",
                "operation = \"copy\"", "methods = [\"read/*\"]", "methods = [\"read/[\"]", "methods = []",
                "blocks = [\"4K\", \"ä\"]", "sizes = [\"auto\"]", "cache = [\"over\", 1]", "work = 99999999999999999999",
                "argv = [\"cat\", \"{file}\"]", "kernel = \"\"", "target = \"\u{1F600}\"", "\u{feff}", "\"", "= \r",
            ]),
            0..12,
        ),
    ) {
        let _ = parse(&lines.join("\n"), "x.toml");
    }
}

#[test]
fn findings_of_others_are_read_with_their_source_and_checked_like_the_rest() {
    let contest = "name = \"x\"\nabout = \"y\"\n[[contest]]\noperation = \"read\"\nmethods = [\"read/sync\"]\n";
    let published = |finding: &str| {
        format!(
            "{contest}[[published]]\nsource = \"A paper (2014)\"\nmachine = \"a server\"\n[[published.finding]]\n{finding}"
        )
    };
    let text = published("operation = \"write\"\nat-least = \"256M\"\nmethod = \"write_mmap\"\n");
    let found = &parsed(&text).published[0];
    assert_eq!(
        (found.experiment.as_str(), found.source.as_str()),
        ("x", "A paper (2014)")
    );
    let finding = &found.findings[0];
    assert_eq!((finding.at_least_bytes, finding.below_bytes), (Some(256 << 20), None));
    assert_eq!(finding.kind, seekless_record::FindingKind::Any);
    let read = "operation = \"read\"\nmethod = \"read/sync\"\n";
    let text = published(&format!(
        "{read}cache = \"over\"\nlayout = \"1024K hole,4K data\"\nvmstat = {{ us = 46.5, sy = 48, in = 163 }}"
    ));
    let finding = &parsed(&text).published[0].findings[0];
    assert_eq!(
        (finding.cache, finding.layout.as_deref()),
        (Some(Cache::Over), Some("1M hole, 4K data"))
    );
    let system = finding.system.unwrap();
    assert_eq!((system.user, system.idle), (Some(0.465), None));
    assert_eq!((system.system, system.interrupts_per_second), (Some(0.48), Some(163.0)));
    let refused = |finding: &str| Experiment::from_toml(&published(finding), "x").unwrap_err().to_string();
    assert!(refused(&format!("{read}vmstat = {{ us = 101 }}")).contains("0 to 100"));
    assert!(refused(&format!("{read}vmstat = {{ user = 1 }}")).contains("user"));
    assert!(refused(&format!("{read}layout = \"4K gap\"")).contains("`4K gap`"));
    assert!(refused("operation = \"raed\"\nmethod = \"m\"\n").contains("did you mean `read`"));
    assert!(refused("operation = \"read\"\nkind = \"slow\"\nmethod = \"m\"\n").contains("synchronous"));
    assert!(refused("operation = \"read\"\nbelow = \"much\"\nmethod = \"m\"\n").contains("x:11:9: `much`"));
}
