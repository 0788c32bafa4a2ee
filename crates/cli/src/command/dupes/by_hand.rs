//! Asking for each group which files stay (`--interactive`).
//!
//! Not here: what answers mean, and where they are kept (`tools`).

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;

use anyhow::anyhow;
use seekless_tools::Stop;
use seekless_tools::dupes::EqualFiles;
use seekless_tools::dupes::act::by_hand::{HandAnswer, HandAnswers};
use seekless_tools::dupes::act::copies::SearchOrigin;
use seekless_tools::dupes::act::rules::Rule;

use super::act_options::state_directory;
use crate::command::Failure;
use crate::command::confirm::answer;
use crate::show::{counted, say, show_numbered, stderr, visible_path};
use crate::signals::{CaughtSignal, stopping};

const HELP: &str = "\
  1 3    files 1 and 3 stay; the others are acted on
  1 a    file 1 stays; also answers later groups with files in the same directories
  s      skip: nothing is done with this group (s a: nor with later ones like it)
  q      stop asking; what was chosen so far becomes the plan
";

/// Asks which files of groups stay. Returns the rule that keeps these, and the groups for which something was chosen.
pub fn choose_by_hand(
    origin: &SearchOrigin,
    groups: Vec<EqualFiles>,
    is_stdin_used: bool,
) -> Result<(Rule, Vec<EqualFiles>), Failure> {
    let unkept = |path: &Path, error| anyhow!("{}: cannot keep answers: {error}", visible_path(path));
    let answers = HandAnswers::open(&state_directory()?, origin);
    let mut answers = answers.map_err(|(path, error)| unkept(&path, error))?;
    let (_, caught) = stopping(Stop::stop)?;
    let known = groups.iter().filter(|group| answers.known(group).is_some()).count();
    let file = visible_path(answers.path());
    let told = match known {
        0 => format!("answers are kept in {file}"),
        _ => format!(
            "{} answered by an earlier run; remove {file} to be asked again",
            counted(known as u64, "group")
        ),
    };
    say(&told);
    let references = origin.roots.iter().filter(|root| !root.is_reference).count() as u32;
    let (number, mut is_stopped) = (groups.len(), false);
    let (mut stays, mut chosen) = (HashSet::new(), Vec::new());
    for (at, group) in groups.into_iter().enumerate() {
        let mut answer = answers.known(&group).map(|files| (files, false));
        if answer.is_none() && !is_stopped {
            writeln!(stderr(), "\nGroup {} of {number}", at + 1)?;
            show_numbered(&group, references)?;
            answer = ask(&group, is_stdin_used, &caught)?;
            is_stopped = answer.is_none();
        }
        let Some((files, is_for_all)) = answer else { continue };
        let added = answers.add(&group, &files, is_for_all);
        added.map_err(|error| unkept(answers.path(), error))?;
        if !files.is_empty() {
            let names = files.iter().flat_map(|file| &group.files[*file].names);
            stays.extend(names.map(|name| name.path.clone()));
            chosen.push(group);
        }
    }
    Ok((Rule::Chosen(stays), chosen))
}

/// Asks until the answer can be used: the files that stay, and whether this is for all groups like it; `None` to stop.
fn ask(group: &EqualFiles, is_stdin_used: bool, caught: &CaughtSignal) -> Result<Option<(Vec<usize>, bool)>, Failure> {
    loop {
        let unasked = "cannot ask without a terminal; use --keep RULE to say which files stay";
        let question = "Which files stay? [numbers, a, s, q, ?] ";
        let line = answer(question, unasked, is_stdin_used, caught)?;
        match HandAnswer::parse(&line, group) {
            Ok(HandAnswer::Keep { files, is_for_all }) => return Ok(Some((files, is_for_all))),
            Ok(HandAnswer::Help) => write!(stderr(), "{HELP}")?,
            Err(why) if !line.is_empty() => writeln!(stderr(), "{why}")?,
            Ok(HandAnswer::Stop) | Err(_) => return Ok(None),
        }
    }
}
