//! The TOML form of an experiment: reading it, checking it, and saying where it is wrong.

use std::fs;
use std::path::Path;

use seekless_engine::method::{AccessPattern, Choice, format_size};
use seekless_engine::{Method, Operation};
use seekless_record::{Cache, Command, Differ, Subject, Target};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;

use super::command::{CommandText, IsThere, commands};
use super::error::LIMIT_BYTES;
use super::published::{ColumnText, PublishedText, column, published};
use super::updates::{UpdatesText, updates};
use super::words::{
    Checked, FormatProblem, Words, distinct, one_of, operation, problem, push_distinct, refuse, size_of,
};
use super::{ContestPlan, Experiment, ExperimentError, Size, entry, expand, syntax};
use crate::cgroup;
use crate::kernel::Kernel;
use crate::layout::Layout;

/// The most extra work, in nanoseconds per KiB: a second for each MiB.
const MAX_WORK: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentText {
    name: Spanned<String>,
    about: String,
    contest: Spanned<Vec<ContestText>>,
    #[serde(default)]
    published: Vec<PublishedText>,
    #[serde(default)]
    column: Vec<ColumnText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ContestText {
    operation: Spanned<String>,
    #[serde(default)]
    methods: Vec<Spanned<String>>,
    blocks: Option<Words>,
    sizes: Option<Words>,
    cache: Option<Words>,
    differ: Option<Words>,
    read_ahead_kib: Option<Spanned<Vec<Spanned<u64>>>>,
    layout: Option<Words>,
    tree: Option<Spanned<String>>,
    files: Option<Spanned<u32>>,
    memory: Option<Spanned<String>>,
    target: Option<Spanned<String>>,
    sustained: Option<Spanned<bool>>,
    updates: Option<Spanned<UpdatesText>>,
    kernel: Option<Spanned<String>>,
    work: Option<Spanned<u64>>,
    #[serde(default)]
    command: Vec<CommandText>,
}

/// Reads the text of a regular file of a sensible size.
pub(super) fn read(path: &Path) -> Result<String, ExperimentError> {
    let unreadable = |source| ExperimentError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(ExperimentError::NotRegular(path.to_owned()));
    }
    if metadata.len() > LIMIT_BYTES {
        return Err(ExperimentError::TooLarge {
            path: path.to_owned(),
            bytes: metadata.len(),
        });
    }
    fs::read_to_string(path).map_err(unreadable)
}

/// Parses the text of an experiment; `is_there` says which programs are installed.
pub(super) fn parse(text: &str, origin: &str, is_there: IsThere) -> Result<Experiment, ExperimentError> {
    parse_toml(text, origin, |text| experiment(text, is_there))
}

/// Parses and checks a TOML text. An error has the line and the column in the text, which comes from `origin`.
pub fn parse_toml<T: DeserializeOwned, U>(
    text: &str,
    origin: &str,
    check: impl FnOnce(T) -> Checked<U>,
) -> Result<U, ExperimentError> {
    let parsed = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        FormatProblem {
            message: syntax::explained(text, span.clone(), error.message()),
            span,
        }
    });
    parsed.and_then(check).map_err(|FormatProblem { span, message }| {
        let before = text.get(..span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ExperimentError::Malformed {
            origin: origin.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    })
}

fn experiment(text: ExperimentText, is_there: IsThere) -> Checked<Experiment> {
    let name = text.name.get_ref();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = (1..=64).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_plain);
    // Runs and their files are named after it.
    let must = "a name must have 1 to 64 letters, digits, `-`, `_` or `.`, and must not start with a dot";
    refuse(Some(&text.name), !is_name, must)?;
    let is_empty = text.contest.get_ref().is_empty();
    refuse(
        Some(&text.contest),
        is_empty,
        "an experiment needs at least one `[[contest]]`",
    )?;
    let contests = text.contest.get_ref().iter().map(|text| contest(text, is_there));
    let published = text.published.into_iter().map(|text| published(name, text));
    let columns = text.column.into_iter().map(|text| column(name, text));
    Ok(Experiment {
        name: name.clone(),
        about: text.about,
        contests: contests.collect::<Checked<_>>()?,
        published: published.collect::<Checked<_>>()?,
        columns: columns.collect::<Checked<_>>()?,
    })
}

fn contest(text: &ContestText, is_there: IsThere) -> Checked<ContestPlan> {
    let operation = operation(&text.operation)?;
    let target = target(operation, text.target.as_ref())?;
    let commands = commands(operation, text.tree.is_some(), &text.command, is_there)?;
    let methods = methods(operation, text)?;
    appends(operation, text, &methods, &commands)?;
    let is_empty = methods.is_empty() && commands.is_empty();
    let needs_one = "a contest needs at least one method or command";
    refuse(Some(&text.operation), is_empty, needs_one)?;
    refuse_unused(operation, text)?;
    refuse_beside_tree(operation, text)?;
    let differs = differs(operation, &methods, text.differ.as_ref())?;
    let sustained = sustained(text.sustained.as_ref(), target, &methods, &commands)?;
    let caches = caches(operation, target, text.cache.as_ref())?;
    let labels = labels(text);
    let label = |choice: &Choice| labels.iter().find(|(known, _)| choice.method() == Some(known));
    let methods = methods.into_iter().map(|choice| {
        let label = label(&choice).map(|(_, label)| label.clone());
        entry(choice.into(), label)
    });
    let commands = commands
        .into_iter()
        .map(|command| entry(Subject::Command(command), None));
    let mut plan = ContestPlan::of(operation, Vec::new(), Size::Auto);
    plan.common.entries = methods.chain(commands).collect();
    plan.common.memory_bytes = memory(&caches, text.memory.as_ref())?;
    plan.common.updates = updates(operation, text.updates.as_ref())?;
    plan.common.target = target;
    plan.common.tree = text.tree.as_ref().map(|tree| tree.get_ref().clone());
    plan.common.sustained = sustained;
    plan.common.kernel = kernel(operation, text.kernel.as_ref())?.to_string();
    plan.common.work_ns_per_kib = work(operation, text.work.as_ref())?;
    Ok(ContestPlan {
        sizes: sizes(text.sizes.as_ref())?,
        layouts: layouts(operation, text)?,
        files: files(text.files.as_ref())?,
        caches,
        differs,
        read_ahead_kib: read_ahead_kib(text.read_ahead_kib.as_ref())?,
        ..plan
    })
}

/// Refuses keys that nothing in the contest uses.
fn refuse_unused(operation: Operation, text: &ContestText) -> Checked<()> {
    let takes_block = |name: &Spanned<String>| {
        let all = expand::expand(name.get_ref(), operation, &[]).unwrap_or_default();
        let has_block = |choice: Choice| choice.method()?.options().block_bytes();
        !name.get_ref().contains("block=") && all.into_iter().any(|choice| has_block(choice).is_some())
    };
    let no_blocks = "no method of this contest takes `blocks`: each names its block, or has none";
    refuse(text.blocks.as_ref(), !text.methods.iter().any(takes_block), no_blocks)?;
    let no_window = "a write reads nothing, so it has no `read-ahead-kib`";
    refuse(text.read_ahead_kib.as_ref(), operation == Operation::Write, no_window)?;
    let is_sustained = text.sustained.as_ref().is_some_and(|on| *on.get_ref());
    let no_files = "a sustained write has no `files`: `sizes` says how much is written in all";
    refuse(text.files.as_ref(), is_sustained, no_files)?;
    let only = |key| format!("`{key}` is only for methods, and this contest has commands alone");
    refuse(text.kernel.as_ref(), text.methods.is_empty(), only("kernel"))?;
    refuse(text.work.as_ref(), text.methods.is_empty(), only("work"))
}

/// An existing directory is read as it is, by commands that take it.
fn refuse_beside_tree(operation: Operation, text: &ContestText) -> Checked<()> {
    let tree = text.tree.as_ref();
    let only_read = format!("`tree` is allowed only for `read`, not for `{operation}`");
    refuse(tree, operation != Operation::Read, only_read)?;
    let is_path = |path: &String| !path.is_empty() && !path.contains('\0');
    let is_named = tree.is_none_or(|tree| is_path(tree.get_ref()));
    refuse(tree, !is_named, "`tree` must name a directory")?;
    let only_commands = "`tree` is only for commands, and this contest has methods";
    refuse(tree, !text.methods.is_empty(), only_commands)?;
    let has_its_own = |key| format!("`{key}` is not allowed beside `tree`, whose files are read as they are");
    refuse(text.files.as_ref(), tree.is_some(), has_its_own("files"))?;
    refuse(text.sizes.as_ref(), tree.is_some(), has_its_own("sizes"))?;
    refuse(text.layout.as_ref(), tree.is_some(), has_its_own("layout"))
}

/// In a comparison, files with holes are only for commands: methods must read all of both files, and a difference in a hole would fill it.
fn layouts(operation: Operation, text: &ContestText) -> Checked<Vec<Layout>> {
    let compares_holes = operation == Operation::Compare && !(text.methods.is_empty() && text.differ.is_none());
    let only_commands = "for `compare`, `layout` is allowed only in a contest of commands without `differ`";
    refuse(text.layout.as_ref(), compares_holes, only_commands)?;
    let has_none = matches!(operation, Operation::Write | Operation::Update | Operation::Scan);
    let only = format!("`layout` is allowed only for `read`, `copy` and `compare`, not for `{operation}`");
    refuse(text.layout.as_ref(), has_none, only)?;
    let Some(layout) = &text.layout else {
        return Ok(vec![Layout::Dense]);
    };
    distinct(layout, "layout", |text| {
        text.get_ref().parse().or_else(|why: String| problem(text, why))
    })
}

fn memory(caches: &[Cache], text: Option<&Spanned<String>>) -> Checked<Option<u64>> {
    let is_unused = !caches.contains(&Cache::Over);
    refuse(
        text,
        is_unused,
        "`memory` needs the cache state `over`: add it to `cache`",
    )?;
    let bytes = text.map(|text| size_of(text, "memory")).transpose()?;
    let least = format_size(cgroup::LEAST_BYTES);
    let too_little = format!("`memory` must be at least {least}: less is not enough to run a program");
    refuse(text, bytes.is_some_and(|bytes| bytes < cgroup::LEAST_BYTES), too_little)?;
    Ok(bytes)
}

fn methods(operation: Operation, text: &ContestText) -> Checked<Vec<Choice>> {
    let blocks = text.blocks.iter().flat_map(Spanned::get_ref);
    let blocks = blocks
        .map(|block| size_of(block, "block"))
        .collect::<Checked<Vec<_>>>()?;
    let mut methods = Vec::new();
    for name in &text.methods {
        match expand::expand(name.get_ref(), operation, &blocks) {
            Ok(expanded) => push_distinct(&mut methods, expanded),
            Err(message) => return problem(name, message),
        }
    }
    Ok(methods)
}

/// The published names among those of a contest, with their methods.
fn labels(text: &ContestText) -> Vec<(Method, String)> {
    let labels = text.methods.iter().filter_map(|name| expand::label(name.get_ref()));
    labels
        .filter_map(|label| Some((label.parse().ok()?, label.to_owned())))
        .collect()
}

fn sizes(text: Option<&Words>) -> Checked<Vec<Size>> {
    let Some(text) = text else { return Ok(vec![Size::Auto]) };
    let size = |text: &Spanned<String>| match text.get_ref().as_str() {
        "auto" => Ok(Size::Auto),
        _ => size_of(text, "file").map(Size::Bytes),
    };
    distinct(text, "size", size)
}

/// The most files of a trial: all of them are looked at before each.
pub(crate) const MOST_FILES: u32 = 1_000_000;

fn files(text: Option<&Spanned<u32>>) -> Checked<Option<u32>> {
    let count = text.map(|text| *text.get_ref());
    let is_wrong = count.is_some_and(|count| !(1..=MOST_FILES).contains(&count));
    refuse(text, is_wrong, format!("a trial must have 1 to {MOST_FILES} files"))?;
    Ok(count)
}

/// A fresh write has no file that could be cached. A file that is written over may be left as it is.
fn caches(operation: Operation, target: Target, text: Option<&Words>) -> Checked<Vec<Cache>> {
    let known: &[(&str, Cache)] = match (operation, target) {
        (Operation::Write, Target::Fresh | Target::Append) => &[("none", Cache::None)],
        (Operation::Write, Target::Overwrite) => &[("none", Cache::None), ("cold", Cache::Cold), ("warm", Cache::Warm)],
        (Operation::Update, _) => &[("warm", Cache::Warm), ("cold", Cache::Cold)],
        _ => &[("cold", Cache::Cold), ("warm", Cache::Warm), ("over", Cache::Over)],
    };
    match text {
        None => Ok(vec![known[0].1]),
        Some(text) => distinct(text, "cache state", |word| one_of(word, "cache state", known)),
    }
}

/// Where second files differ. A method that answers at once for a file compared with itself would be ranked for nothing.
fn differs(operation: Operation, methods: &[Choice], text: Option<&Words>) -> Checked<Vec<Differ>> {
    let only_compare = format!("`differ` is allowed only for `compare`, not for `{operation}`");
    refuse(text, operation != Operation::Compare, only_compare)?;
    let Some(text) = text else {
        return Ok(vec![Differ::None]);
    };
    let known = Differ::ALL.map(|differ| (differ.name(), differ));
    let differs = distinct(text, "place", |word| one_of(word, "place of a difference", &known))?;
    let mut methods = methods.iter().filter_map(Choice::method);
    match methods.find(|method| !method.options().identity_ignored()) {
        Some(method) if differs.contains(&Differ::Itself) => problem(
            text,
            format!(
                "`{method}` recognizes a file that is compared with itself, without reading it: add identity=ignore to all methods"
            ),
        ),
        _ => Ok(differs),
    }
}

/// The largest read-ahead window that is set, in KiB: a GiB.
const MAX_READ_AHEAD_KIB: u64 = 1 << 20;

fn read_ahead_kib(text: Option<&Spanned<Vec<Spanned<u64>>>>) -> Checked<Vec<Option<u64>>> {
    let Some(text) = text else { return Ok(vec![None]) };
    distinct(text, "window", |kib| match *kib.get_ref() {
        0..=MAX_READ_AHEAD_KIB => Ok(Some(*kib.get_ref())),
        _ => problem(kib, format!("a read-ahead window has at most {MAX_READ_AHEAD_KIB} KiB")),
    })
}

fn target(operation: Operation, text: Option<&Spanned<String>>) -> Checked<Target> {
    let is_update = operation == Operation::Update;
    refuse(text, is_update, "an update changes an existing file: omit `target`")?;
    let has_none = matches!(operation, Operation::Read | Operation::Compare | Operation::Scan);
    refuse(text, has_none, format!("`target` is not allowed for `{operation}`"))?;
    match text {
        None if is_update => Ok(Target::Overwrite),
        None => Ok(Target::Fresh),
        Some(word) => one_of(word, "target", &Target::ALL.map(|target| (target.name(), target))),
    }
}

/// Appends are timed one by one, until each is durable.
fn appends(operation: Operation, text: &ContestText, methods: &[Choice], commands: &[Command]) -> Checked<()> {
    let target = text
        .target
        .as_ref()
        .filter(|word| word.get_ref() == Target::Append.name());
    let is_commit = |method: &Method| {
        let options = method.options();
        options.durability().is_of_each_call()
            && options.access() == AccessPattern::Sequential
            && options.block_bytes().is_some()
    };
    let are_commits = methods.iter().all(|choice| choice.method().is_some_and(is_commit));
    let is_right = operation == Operation::Write && are_commits && commands.is_empty();
    let needs =
        "`append` needs methods that write sequentially, with `write-through` or `fdatasync-each`, and no commands";
    refuse(target, !is_right, needs)
}

/// What a sustained write leaves behind is not what it found, so there is no second method to compare it with.
fn sustained(text: Option<&Spanned<bool>>, target: Target, methods: &[Choice], commands: &[Command]) -> Checked<bool> {
    let Some(text) = text.filter(|text| *text.get_ref()) else {
        return Ok(false);
    };
    let writes_on = |method: &Method| {
        method.operation() == Operation::Write && method.options().access() == AccessPattern::Sequential
    };
    let is_single = matches!(methods, [only] if only.method().is_some_and(writes_on));
    let is_right = is_single && commands.is_empty() && target == Target::Fresh;
    let needs = "a sustained contest needs exactly one method, which writes fresh files sequentially";
    refuse(Some(text), !is_right, needs)?;
    Ok(true)
}

fn kernel(operation: Operation, text: Option<&Spanned<String>>) -> Checked<Kernel> {
    let is_compare = operation == Operation::Compare;
    let differ = "`kernel` is allowed only for `read`; for `compare`, use an option of the method, as in `compare/sync,differ=bytewise`";
    refuse(text, is_compare, differ)?;
    let is_read = operation == Operation::Read;
    let only_read = format!("`kernel` is allowed only for `read`, not for `{operation}`");
    refuse(text, !is_read, only_read)?;
    match text {
        None if is_read || operation == Operation::Scan => Ok(Kernel::default()),
        None => Ok(Kernel::None),
        Some(word) => one_of(word, "kernel", &Kernel::ALL.map(|kernel| (kernel.name(), kernel))),
    }
}

fn work(operation: Operation, text: Option<&Spanned<u64>>) -> Checked<u64> {
    let text = text.filter(|work| *work.get_ref() > 0);
    let work = text.map_or(0, |work| *work.get_ref());
    refuse(text, work > MAX_WORK, format!("work is at most {MAX_WORK} ns per KiB"))?;
    let why = match operation {
        Operation::Read | Operation::Write => return Ok(work),
        Operation::Copy => "`work` is not allowed for `copy`, which does not process the bytes",
        Operation::Compare => "`work` is not allowed for `compare`",
        Operation::Update => "`work` is not allowed for `update`, whose bytes are generated before the trial",
        Operation::Scan => "`work` is not allowed for `scan`",
    };
    refuse(text, true, why)?;
    Ok(0)
}

#[cfg(test)]
mod tests;
