//! The programs that an experiment runs beside its methods.

use std::path::PathBuf;

use seekless_engine::Operation;
use seekless_record::{Command, ExitCode};
use serde::Deserialize;
use toml::Spanned;

use super::words::{Checked, one_of, problem, refuse, visible};

/// Whether a program can be started.
pub(super) type IsThere = fn(&str) -> bool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CommandText {
    name: Spanned<String>,
    argv: Spanned<Vec<String>>,
    before: Option<Spanned<Vec<String>>>,
    exit_code: Option<Spanned<String>>,
    #[serde(default)]
    same_output: bool,
    #[serde(default)]
    optional: bool,
    note: Option<String>,
}

pub(super) fn commands(
    operation: Operation,
    has_tree: bool,
    texts: &[CommandText],
    is_there: IsThere,
) -> Checked<Vec<Command>> {
    let mut commands: Vec<Command> = Vec::new();
    for text in texts {
        let name = visible(&text.name, "command")?;
        let is_known = commands.iter().any(|command| command.name == *name);
        refuse(Some(&text.name), is_known, format!("two commands are named `{name}`"))?;
        commands.push(command(operation, has_tree, text)?);
        let all = [Some(&text.argv), text.before.as_ref()].into_iter().flatten();
        for argv in all.filter(|_| !text.optional) {
            let program = &argv.get_ref()[0];
            let is_missing = !program.contains('{') && !is_there(program);
            let why = "if the rest can be measured without it, add `optional = true`";
            refuse(
                Some(argv),
                is_missing,
                format!("there is no program `{program}`; {why}"),
            )?;
        }
    }
    Ok(commands)
}

fn command(operation: Operation, has_tree: bool, text: &CommandText) -> Checked<Command> {
    let is_compare = operation == Operation::Compare;
    let only_compare = format!("only a comparison gives a verdict; this is a {operation}");
    refuse(text.exit_code.as_ref(), !is_compare, only_compare)?;
    let exit_code = match &text.exit_code {
        None if is_compare => ExitCode::Verdict,
        None => ExitCode::Success,
        Some(word) => one_of(word, "exit code", &ExitCode::ALL.map(|code| (code.name(), code)))?,
    };
    arguments(&text.argv)?;
    let before = text.before.as_ref().map(|before| before.get_ref().clone());
    let command = Command {
        name: text.name.get_ref().clone(),
        argv: text.argv.get_ref().clone(),
        before: before.unwrap_or_default(),
        exit_code,
        same_output: text.same_output,
        note: text.note.clone(),
    };
    let needed: &[&str] = match (operation, exit_code) {
        (Operation::Read, _) if has_tree => &["{tree}"],
        (Operation::Read | Operation::Scan, _) if command.takes_tree() => &[],
        (Operation::Read | Operation::Scan, _) => &["{file}"],
        (Operation::Write, _) => &["{target}"],
        (Operation::Copy, _) if text.before.is_some() => &["{target}"],
        (Operation::Copy, _) => &["{file}", "{target}"],
        (Operation::Compare, ExitCode::Verdict) if command.takes_tree() => &["{other-tree}"],
        (Operation::Compare, ExitCode::Verdict) => &["{one}", "{other}"],
        (Operation::Compare, ExitCode::Success) => &[],
        (Operation::Update, _) => &["{target}", "{updates}"],
    };
    let has = |placeholder: &str| {
        command
            .argv
            .iter()
            .skip(1)
            .any(|argument| argument.contains(placeholder))
    };
    if let Some(missing) = needed.iter().find(|placeholder| !has(placeholder)) {
        let must = format!("the arguments of a {operation} command must contain `{missing}`");
        return problem(&text.argv, must);
    }
    text.before.as_ref().map(arguments).transpose()?;
    let may_prepare = matches!(operation, Operation::Compare | Operation::Copy);
    let only = format!("`before` is allowed only for `compare` and `copy`, not for `{operation}`");
    refuse(text.before.as_ref(), !may_prepare, only)?;
    Ok(command)
}

/// Whether a program can be started: an executable file, in `PATH` if its name has no slash.
pub(super) fn is_there(program: &str) -> bool {
    let is_program = |path: PathBuf| {
        let may_execute = rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok();
        path.is_file() && may_execute
    };
    if program.contains('/') {
        return is_program(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_program(directory.join(program)))
}

/// Checks that a program can be started with these arguments.
fn arguments(argv: &Spanned<Vec<String>>) -> Checked<()> {
    let has_none = argv.get_ref().first().is_none_or(String::is_empty);
    refuse(Some(argv), has_none, "the program is missing")?;
    let has_zero = argv.get_ref().iter().any(|argument| argument.contains('\0'));
    refuse(Some(argv), has_zero, "an argument cannot contain a zero byte")
}
