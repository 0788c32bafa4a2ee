//! From the names of an experiment to methods: names, 2014 names, globs, and the blocks of a contest.

use globset::{Glob, GlobMatcher};
use seekless_engine::method::{
    ALIASES, AccessPattern, Choice, MECHANISMS, PlannedChoice, Setting, did_you_mean, variants,
};
use seekless_engine::{Method, Operation};

use super::error::nearest;

/// The methods that a name or glob stands for. One that has a default block and names none gets each of the blocks.
pub(super) fn expand(name: &str, operation: Operation, blocks: &[u64]) -> Result<Vec<Choice>, String> {
    let methods = if is_glob(name) {
        matching(name, operation)?
    } else {
        vec![exact(name, operation)?]
    };
    if blocks.is_empty() || name.contains("block=") {
        return Ok(methods);
    }
    let mut expanded = Vec::new();
    for choice in methods {
        let has_block = |method: &&Method| method.options().block_bytes().is_some();
        if let Some(method) = choice.method().filter(has_block) {
            for &block in blocks {
                let sized = method.with(Setting::block_bytes(block));
                expanded.push(sized.map_err(|error| error.to_string())?.into());
            }
        } else {
            expanded.push(choice);
        }
    }
    Ok(expanded)
}

/// The name under which a document published a method, where an experiment gives it by that name alone. The names of 2014
/// stand for a method with each of many blocks, so they are no method's own.
pub(super) fn label(name: &str) -> Option<&'static str> {
    let alias = ALIASES.iter().find(|alias| alias.name == name)?;
    (alias.document != 2014).then_some(alias.name)
}

fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '[', '{'])
}

fn exact(name: &str, operation: Operation) -> Result<Choice, String> {
    let method: Choice = name
        .parse()
        .map_err(|error: seekless_engine::ParseError| error.to_string())?;
    if method.operation() == operation {
        Ok(method)
    } else {
        Err(format!(
            "`{name}` is a {} method in a {operation} contest",
            method.operation()
        ))
    }
}

/// All variants that match. Reading or writing at random is other work: a glob matches it only if it names it.
fn matching(pattern: &str, operation: Operation) -> Result<Vec<Choice>, String> {
    let glob = glob(pattern).map_err(|message| format!("`{pattern}` is not a valid glob: {message}"))?;
    let ranked = MECHANISMS.iter().filter(|mechanism| mechanism.operation == operation);
    let plans = PlannedChoice::durabilities(operation)
        .iter()
        .map(|&durability| Choice::Plan(PlannedChoice { operation, durability }));
    let found: Vec<Choice> = ranked
        .flat_map(variants)
        .map(Choice::Method)
        .chain(plans)
        .filter(|choice| glob.is_match(choice.to_string()))
        .filter(|choice| pattern.contains("access") || !is_random(choice))
        .collect();
    if found.is_empty() {
        let like = did_you_mean(&nearest_methods(pattern));
        return Err(format!("`{pattern}` matches no {operation} method{like}"));
    }
    Ok(found)
}

fn is_random(choice: &Choice) -> bool {
    let options = choice.method().map(Method::options);
    options.is_some_and(|options| options.access() == AccessPattern::Random)
}

/// A glob for methods, in which `*` stands for any text, `/` and `,` included. An option as a command line has it, such as
/// `--direct`, stands for all methods with it: `*direct*`.
///
/// # Errors
/// What is wrong with the glob.
pub fn glob(pattern: &str) -> Result<GlobMatcher, String> {
    let with_option = pattern.strip_prefix("--").map(|option| format!("*{option}*"));
    Glob::new(with_option.as_deref().unwrap_or(pattern))
        .map(|glob| glob.compile_matcher())
        .map_err(|error| error.kind().to_string())
}

/// Mechanisms and 2014 names that look like a name or glob.
pub(super) fn nearest_methods(given: &str) -> Vec<String> {
    let plain = given.split([',', '*', '?', '[', '{']).next().unwrap_or(given);
    let names: Vec<String> = MECHANISMS.iter().map(|known| format!("{known:?}")).collect();
    nearest(
        plain,
        names
            .iter()
            .map(String::as_str)
            .chain(ALIASES.iter().map(|alias| alias.name)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(name: &str, blocks: &[u64]) -> Vec<String> {
        let methods = expand(name, Operation::Read, blocks).unwrap_or_else(|error| panic!("{error}"));
        methods.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn blocks_go_to_methods_that_have_one_and_name_none() {
        let expected = ["read/sync,direct,block=4K", "read/sync,direct,block=64K"];
        assert_eq!(expanded("read_direct", &[4096, 65536]), expected);
        assert_eq!(expanded("read/sync,block=1M", &[4096]), ["read/sync,block=1M"]);
        assert_eq!(expanded("read/mmap", &[4096]), ["read/mmap"]);
        assert_eq!(expanded("read/sync", &[]), ["read/sync,block=128K"]);
    }

    #[test]
    fn globs_choose_among_all_variants() {
        assert!(expanded("read/mmap*", &[]).contains(&"read/mmap,hint=populate".to_owned()));
        let direct = expanded("read/{sync,threads}*,direct*", &[]);
        assert!(direct.iter().all(|method| method.contains("direct")));
    }

    #[test]
    fn a_glob_of_another_operation_or_none_is_an_error() {
        for (glob, words) in [
            ("write/*", "matches no read method"),
            ("read/[", "is not a valid glob"),
            ("write/sync", "in a read contest"),
        ] {
            let error = expand(glob, Operation::Read, &[]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
