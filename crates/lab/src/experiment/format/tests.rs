//! Valid and invalid experiments, and the places that errors name.

use proptest::prelude::*;
use seekless_record::{Draw, ExitCode};

use super::*;
use crate::layout::Layout;

/// Text in TOML, in which double quotes are written as single ones.
fn toml(text: &str) -> String {
    text.replace('\'', "\"")
}

fn parse(text: &str) -> Result<Experiment, ExperimentError> {
    super::parse(&toml(text), "x.toml", |program| program != "missing")
}

fn parsed(text: &str) -> Experiment {
    parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The only contest of an experiment, with these lines.
fn contest(lines: &str) -> ContestPlan {
    parsed(&with(lines)).contests.remove(0)
}

fn refused(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// Fails unless a contest with each of these lines behind others is refused in these words.
fn refuses(lines: &str, table: &[(&str, &str)]) {
    for (line, words) in table {
        let error = refused(&with(&format!("{lines}\n{line}")));
        assert!(error.contains(&toml(words)), "{line}: {error}");
    }
}

/// One of the commands of a contest.
fn command(contest: &ContestPlan, index: usize) -> &Command {
    let mut commands = contest.common.entries.iter().filter_map(|entry| entry.command());
    commands.nth(index).expect("a command")
}

/// A contest with these lines, from line 4 on.
fn with(lines: &str) -> String {
    format!("name = 'x'\nabout = ''\n[[contest]]\n{lines}\n")
}

const READ: &str = "operation = 'read'\nmethods = ['read/sync']";
const WRITE: &str = "operation = 'write'\nmethods = ['write/sync']";
const COPY: &str = "operation = 'copy'\nmethods = ['copy/sync']";
const COMPARE: &str = "operation = 'compare'\nmethods = ['compare/sync']";
const UPDATE: &str = "operation = 'update'\nmethods = ['update/sync', 'update/planned']";

#[test]
fn experiment_is_read_whole_and_has_defaults() {
    let read = contest(READ);
    assert_eq!((read.caches, read.sizes), (vec![Cache::Cold], vec![Size::Auto]));
    let common = read.common;
    let defaults = (&*common.kernel, common.work_ns_per_kib, common.target);
    assert_eq!(defaults, ("count", 0, Target::Fresh));
    let write = contest(WRITE);
    assert_eq!((write.caches, &*write.common.kernel), (vec![Cache::None], "none"));
    let contest = contest(
        "operation = 'copy'
methods = ['copy_plain', 'copy/sync', 'copy/sendfile']
blocks = ['4K', '1M']
sizes = ['8M', 'auto', '8M']
cache = ['warm', 'over', 'cold']
target = 'overwrite'
[[contest.command]]
name = 'cp'
argv = ['cp', '{file}', '{target}']",
    );
    let methods: Vec<String> = contest.methods().map(|method| method.to_string()).collect();
    assert_eq!(methods, ["copy/sync,block=4K", "copy/sync,block=1M", "copy/sendfile"]);
    assert_eq!(contest.sizes, [Size::Bytes(8 << 20), Size::Auto]);
    assert_eq!(contest.caches, [Cache::Warm, Cache::Over, Cache::Cold]);
    assert_eq!(contest.common.target, Target::Overwrite);
    assert_eq!(command(&contest, 0).argv.len(), 3);
}

#[test]
fn experiment_sustained_has_one_method_and_nothing_beside() {
    let write = |methods: &str, rest: &str| {
        with(&format!(
            "operation = 'write'\nsustained = true\nmethods = [{methods}]\n{rest}"
        ))
    };
    let whole = parsed(&write("'write/sync,direct,fsync'", ""));
    assert!(whole.contests[0].common.sustained);
    let command = "[[contest.command]]\nname = 'dd'\nargv = ['dd', 'of={target}']";
    for (methods, rest) in [
        ("'write/sync', 'write/mmap'", ""),
        ("'write/sync'", "target = 'overwrite'"),
        ("'write/sync,access=random'", ""),
        ("'write/sync'", command),
    ] {
        let error = refused(&write(methods, rest));
        assert!(error.contains("line 5") || error.contains(":5:"), "{error}");
        assert!(error.contains("one method, which writes fresh files"), "{error}");
    }
}

#[test]
fn experiment_errors_name_line_column_and_the_nearest() {
    let misspelt = with("operation = 'read'\nmethods = ['read/sync',\n 'read/snyc']");
    for (text, start) in [
        ("name = 'x'\nabout = 3", "x.toml:2:9: "),
        ("name = 'x'\nabout = 'ä' x", "x.toml:2:13: "),
        ("name = 'x'\nabot = ''", "x.toml:2:1: "),
        ("name = '../x'\nabout = ''\ncontest = []", "x.toml:1:8: "),
        ("name = 'x'\nabout = ''\ncontest = []", "x.toml:3:11: "),
        (&with("operation = 'raed'\nmethods = []"), "x.toml:4:13: "),
        (&misspelt, "x.toml:6:2: "),
        (&with(&format!("{READ}\nsizes = ['8M', '8Q']")), "x.toml:6:16: "),
    ] {
        let error = refused(text);
        assert!(error.starts_with(start), "{error} does not start with {start}");
    }
    refuses("operation = 'raed'", &[("methods = []", "did you mean `read`?")]);
    let methods = [
        ("methods = ['read/snyc']", "`read/sync`"),
        ("methods = ['read/mmmap*']", "`read/mmap`"),
    ];
    refuses("operation = 'read'", &methods);
    refuses(READ, &[("cahce = []", "`cache`")]);
}

#[test]
fn experiment_without_sense_is_refused() {
    let table = [
        ("target = 'fresh'", "`target` is not allowed"),
        ("cache = ['none']", "cold, warm, over"),
        ("cache = []", "at least one"),
        ("sizes = ['0']", "at least one byte"),
        ("blocks = ['2G']", "block must be between 1 and 1G"),
        ("work = -1", "x.toml:6:8"),
        ("work = 2_000_000", "at most"),
        ("[[contest.command]]\nname = 'cat'\nargv = ['cat']", "`{file}`"),
        ("[[contest.command]]\nname = 'cat'\nargv = []", "program"),
        ("files = 0", "1 to 1000000 files"),
    ];
    refuses(READ, &table);
    let of_methods = [
        ("", "at least one method or command"),
        ("methods = ['write/sync']", "in a read contest"),
    ];
    refuses("operation = 'read'", &of_methods);
    refuses(WRITE, &[("kernel = 'count'", "not for `write`")]);
    refuses(COPY, &[("work = 1", "`work` is not allowed")]);
    for methods in [
        "operation = 'write'\nmethods = ['write/sync,block=4K']",
        "operation = 'write'\nmethods = ['write/sync,block=4K,fsync']",
        "operation = 'write'\nmethods = ['write/sync,block=4K,access=random,write-through']",
        "operation = 'copy'\nmethods = ['copy/sync,write-through']",
    ] {
        let only = "`append` needs methods that write sequentially";
        refuses(methods, &[("target = 'append'", only)]);
    }
    let table = [
        ("differ = ['itself']", "identity=ignore"),
        ("differ = ['frist']", "did you mean `first`?"),
        ("differ = []", "at least one"),
        ("kernel = 'count'", "option of the method"),
        ("target = 'fresh'", "`target` is not allowed"),
        ("work = 1", "`work` is not allowed"),
        ("read-ahead-kib = [2_000_000]", "at most"),
    ];
    refuses(COMPARE, &table);
    let of_code = "argv = ['cmp', '{one}', '{other}']\nexit-code = '0'";
    let of_command = [
        ("argv = ['cmp', '{one}']", "`{other}`"),
        ("argv = ['diff', '{one-tree}']", "`{other-tree}`"),
        ("argv = ['cmp', '{one}', '{other}']\nbefore = []", "program"),
        (of_code, "success, verdict"),
    ];
    refuses(&format!("{COMPARE}\n[[contest.command]]\nname = 'cmp'"), &of_command);
    refuses(READ, &[("differ = ['first']", "allowed only for `compare`")]);
    let of_read = [
        ("exit-code = 'verdict'", "verdict"),
        ("before = ['a']", "`before` is allowed only"),
    ];
    refuses(
        &format!("{READ}\n[[contest.command]]\nname = 'a'\nargv = ['a', '{{file}}']"),
        &of_read,
    );
}

#[test]
fn experiment_compare_says_where_files_differ() {
    let contest = contest(
        "operation = 'compare'
methods = ['compare/sync', 'simple-compare', 'unlocked-compare,hint=sequential']
differ = ['none', 'last', 'none']
read-ahead-kib = [0, 128, 0]
[[contest.command]]
name = 'cmp'
argv = ['cmp', '{one}', '{other}']
note = 'as usual'
[[contest.command]]
name = 'wc'
before = ['cp', '{one}', '{target}']
argv = ['wc', '{target}']
exit-code = 'success'",
    );
    assert_eq!(contest.differs, [Differ::None, Differ::Last]);
    assert_eq!(contest.read_ahead_kib, [Some(0), Some(128)]);
    assert_eq!(command(&contest, 0).exit_code, ExitCode::Verdict);
    assert_eq!(command(&contest, 1).exit_code, ExitCode::Success);
    let labels = contest.common.entries.iter().filter_map(|entry| entry.label.as_deref());
    let labels: Vec<&str> = labels.collect();
    assert_eq!(labels, ["simple-compare"]);
}

#[test]
fn experiment_update_says_what_it_changes() {
    let update = |lines: &str| contest(&format!("{UPDATE}\n{lines}"));
    let usual = update("");
    let expected = (vec![Cache::Warm], Target::Overwrite);
    assert_eq!((usual.caches, usual.common.target), expected);
    let drawn = |lines: &str| {
        let pattern = update(lines).common.updates.unwrap();
        (pattern.bytes, pattern.every_bytes, pattern.draw.name())
    };
    assert_eq!(drawn(""), (4, 400, "ascending"));
    let given = "updates = { bytes = 8, every = 8, draw = 'repeating' }";
    assert_eq!(drawn(given), (8, 8, "repeating"));
    let long = drawn("updates = { bytes = 4096 }");
    assert_eq!(long.1, 4096, "the usual step would overlap");
    let without_updates = "[[contest.command]]\nname = 'a'\nargv = ['a', '{target}']";
    let table = [
        ("updates = { bytes = 8, every = 4 }", "overlap"),
        ("updates = { bytes = 0 }", "x.toml:6:21: "),
        ("updates = { draw = 'shufled' }", "did you mean `shuffled`"),
        ("updates = { order = 1 }", "order"),
        ("cache = ['over']", "valid here: warm, cold"),
        ("target = 'fresh'", "an existing file"),
        ("work = 5", "`work` is not allowed"),
        ("differ = ['none']", "allowed only for `compare`"),
        (without_updates, "`{updates}`"),
    ];
    refuses(UPDATE, &table);
    refuses(READ, &[("updates = {}", "`updates` is not allowed for `read`")]);
}

#[test]
fn experiment_key_errors_tell_what_to_write() {
    let instead = |line: &str, place: &str, key: &str, found: &str, example: &str| {
        let words = format!("x.toml:{place}: `{key}` cannot be {found}; write, for example, `{example}`");
        refuses(READ, &[(line, &words)]);
    };
    instead("sizes = '64M'", "6:9", "sizes", "string '64M'", "sizes = ['64M']");
    instead("sizes = [64]", "6:10", "sizes", "integer `64`", "sizes = ['64M']");
    instead("work = '5'", "6:8", "work", "string '5'", "work = 100");
    instead("work = -4", "6:8", "work", "integer `-4`", "work = 100");
    let unknown = "x.toml:6:1: unknown key `size` (did you mean `sizes`?); the keys are operation, methods, ";
    let one_table = "[contest.command]\nname = 'x'";
    let no_argv = "the key `argv` is missing; write, for example, `argv = ";
    let table = [
        ("size = ['64M']", unknown),
        ("blocks = '4K'", "x.toml:6:10: `blocks` cannot be "),
        ("updates = { every = 'x' }", "x.toml:6:21: `every` cannot be "),
        (one_table, "write, for example, `[[contest.command]]`"),
        ("[[contest.command]]\nname = 'x'", no_argv),
    ];
    refuses(READ, &table);
    let error = refused(&with(READ).replace("[[contest]]", "[contest]"));
    assert!(error.ends_with("; write, for example, `[[contest]]`"), "{error}");
    let (error, end) = (
        refused(""),
        "the key `name` is missing; write, for example, `name = \"mine\"`",
    );
    assert!(error.ends_with(end), "{error}");
}

#[test]
fn experiment_key_that_no_contest_uses_is_refused() {
    let no_blocks = "x.toml:6:10: no method of this contest takes `blocks`";
    let of_methods = "operation = 'read'\nmethods = ['read/mmap', 'read/sync,block=1M']";
    refuses(of_methods, &[("blocks = ['4K']", no_blocks)]);
    let cat = "[[contest.command]]\nname = 'cat'\nargv = ['cat', '{file}']";
    for (line, words) in [
        ("blocks = ['4K']", "takes `blocks`"),
        ("kernel = 'lines'", "`kernel` is only for methods"),
        ("work = 5", "`work` is only for methods"),
    ] {
        refuses("operation = 'read'", &[(&format!("{line}\n{cat}"), words)]);
    }
    refuses(WRITE, &[("read-ahead-kib = [0]", "a write reads nothing")]);
    let sustained = format!("{WRITE}\nsustained = true");
    refuses(
        &sustained,
        &[("files = 5", "x.toml:7:9: a sustained write has no `files`")],
    );
    let some = "operation = 'read'\nmethods = ['read/mmap', 'read/sync']\nblocks = ['4K', '8K']";
    assert_eq!(contest(some).methods().count(), 3);
}

#[test]
fn experiment_program_may_be_missing_only_where_optional() {
    let command = |rest: &str| with(&format!("{READ}\n[[contest.command]]\nname = 'it'\n{rest}"));
    let argv = "argv = ['missing', '{file}']";
    let answer =
        "x.toml:8:8: there is no program `missing`; if the rest can be measured without it, add `optional = true`";
    assert_eq!(refused(&command(argv)), answer);
    parsed(&command(&format!("{argv}\noptional = true")));
    parsed(&command("argv = ['{seekless}', '{file}']"));
    let is_there = super::super::command::is_there;
    assert!(is_there("sh") && is_there("/bin/sh"));
    assert!(!is_there("a-program-that-nobody-has") && !is_there("/etc/passwd") && !is_there("/"));
}

#[test]
fn experiment_columns_are_read() {
    let column = |lines: &str| format!("{}[[column]]\n{lines}", with(UPDATE));
    let text = "name = 'Random'\noperation = 'update'\ndraw = 'shuffled'\nmethods = 'update/*'";
    let found = &parsed(&column(text)).columns[0];
    assert_eq!((found.experiment.as_str(), found.name.as_str()), ("x", "Random"));
    assert_eq!((found.draw.map(Draw::name), found.target), (Some("shuffled"), None));
    for (name, operation, rest, words) in [
        ("a\\tb", "read", "methods = '*'", "visible characters"),
        ("a", "raed", "methods = '*'", "did you mean `read`"),
        ("a", "read", "methods = '['", "is not a valid glob"),
        ("a", "read", "methods = '*'\ndraw = 'x'", "invalid draw `x`"),
    ] {
        let error = refused(&column(&format!("name = '{name}'\noperation = '{operation}'\n{rest}")));
        assert!(error.contains(words), "{rest}: {error}");
    }
}

#[test]
fn experiment_layout_memory_and_holes_of_a_contest() {
    let more = "cache = ['over']\nmemory = '512M'\nlayout = ['dense', '2x(4K hole,4K data)', 'dense']";
    let found = contest(&format!("{READ}\n{more}"));
    let layouts: Vec<String> = found.layouts.iter().map(ToString::to_string).collect();
    assert_eq!(layouts, ["dense", "2 x (4K hole, 4K data)"]);
    assert_eq!(found.common.memory_bytes, Some(512 << 20));
    assert_eq!(contest(READ).layouts, [Layout::Dense]);
    let table = [
        ("layout = ['4K gap']", "x.toml:6:11: `4K gap`"),
        ("layout = []", "at least one"),
        ("memory = '512M'", "cache state `over`"),
        ("cache = ['over']\nmemory = '1M'", "at least 32M"),
    ];
    refuses(READ, &table);
    let only = "allowed only for `read`, `copy` and `compare`";
    refuses(WRITE, &[("layout = ['dense']", only)]);
    let compare = "operation = 'compare'\nlayout = ['4K hole,4K data']";
    let cmp = "[[contest.command]]\nname = 'cmp'\nargv = ['cmp', '{one}', '{other}']";
    assert_eq!(contest(&format!("{compare}\n{cmp}")).layouts.len(), 1);
    let only = "x.toml:5:10: for `compare`, `layout` is allowed only";
    for lines in ["methods = ['compare/sync']", &format!("differ = ['none']\n{cmp}")] {
        refuses(compare, &[(lines, only)]);
    }
}

#[test]
fn experiment_directory_has_its_own_files_for_commands() {
    let command = |argument: &str| format!("[[contest.command]]\nname = 'find'\nargv = ['find', '{argument}']");
    let tree = "operation = 'read'\ntree = '/usr'";
    let find = command("{tree}");
    assert_eq!(contest(&format!("{tree}\n{find}")).common.tree.as_deref(), Some("/usr"));
    for (line, words) in [
        ("files = 5", "x.toml:6:9: `files` is not allowed beside `tree`"),
        ("sizes = ['4K']", "`sizes` is not allowed beside `tree`"),
        ("layout = ['dense']", "`layout` is not allowed beside `tree`"),
    ] {
        refuses(tree, &[(&format!("{line}\n{find}"), words)]);
    }
    let table = [
        ("methods = ['read/sync']", "x.toml:5:8: `tree` is only for commands"),
        (&command("{file}"), "must contain `{tree}`"),
    ];
    refuses(tree, &table);
    refuses(&tree.replace("/usr", ""), &[(&find, "`tree` must name a directory")]);
    let only = "`tree` is allowed only for `read`, not for `compare`";
    refuses(COMPARE, &[("tree = '/usr'", only)]);
}

#[test]
fn experiment_must_be_a_regular_file_of_sensible_size() {
    let directory = tempfile::tempdir().unwrap();
    let error = |path: &Path| read(path).unwrap_err();
    for path in [directory.path(), Path::new("/dev/null")] {
        assert!(matches!(error(path), ExperimentError::NotRegular { .. }));
    }
    let (none, path) = (directory.path().join("none"), directory.path().join("large.toml"));
    fs::File::create(&path).unwrap().set_len(LIMIT_BYTES + 1).unwrap();
    assert!(matches!(error(&path), ExperimentError::TooLarge { .. }));
    fs::write(&path, [0xff]).unwrap();
    for path in [&none, &path] {
        assert!(matches!(error(path), ExperimentError::Unreadable { .. }));
    }
}

#[test]
fn experiment_of_the_docs_is_one() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments.md");
    let docs = fs::read_to_string(docs).unwrap();
    let examples: Vec<&str> = docs
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(!examples.is_empty());
    for example in examples {
        let parsed = super::parse(example, "docs", |_| true);
        assert!(!parsed.unwrap().contests.is_empty());
    }
}

proptest! {
    #[test]
    fn experiment_of_any_text_never_panics(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn experiment_of_text_near_the_format_never_panics(
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
        let _ = parse(&lines.join("\n"));
    }
}

#[test]
fn experiment_findings_have_a_source_and_are_checked() {
    let published = |finding: &str| {
        let source = "[[published]]\nsource = 'A paper (2014)'\nmachine = 'a server'\n[[published.finding]]";
        format!("{}{source}\n{finding}", with(READ))
    };
    let text = published("operation = 'write'\nat-least = '256M'\nmethod = 'write_mmap'\n");
    let found = &parsed(&text).published[0];
    let expected = ("x", "A paper (2014)");
    assert_eq!((found.experiment.as_str(), found.source.as_str()), expected);
    let finding = &found.findings[0];
    assert_eq!((finding.at_least_bytes, finding.below_bytes), (Some(256 << 20), None));
    assert_eq!(finding.kind, seekless_record::FindingKind::Any);
    let read = "operation = 'read'\nmethod = 'read/sync'\n";
    let more = "cache = 'over'\nlayout = '1024K hole,4K data'\nvmstat = { us = 46.5, sy = 48, in = 163 }";
    let finding = &parsed(&published(&format!("{read}{more}"))).published[0].findings[0];
    assert_eq!(finding.cache, Some(Cache::Over));
    assert_eq!(finding.layout.as_deref(), Some("1M hole, 4K data"));
    let system = finding.system.unwrap();
    assert_eq!((system.user, system.idle), (Some(0.465), None));
    assert_eq!((system.system, system.interrupts_per_second), (Some(0.48), Some(163.0)));
    for (finding, words) in [
        (&*format!("{read}vmstat = {{ us = 101 }}"), "0 to 100"),
        (&format!("{read}vmstat = {{ user = 1 }}"), "user"),
        (&format!("{read}layout = '4K gap'"), "`4K gap`"),
        ("operation = 'raed'\nmethod = 'm'\n", "did you mean `read`"),
        ("operation = 'read'\nkind = 'slow'\nmethod = 'm'\n", "synchronous"),
        (&format!("{read}below = 'much'"), "x.toml:12:9: `much`"),
    ] {
        let error = refused(&published(finding));
        assert!(error.contains(words), "{finding}: {error}");
    }
}
