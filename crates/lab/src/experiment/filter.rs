//! Choosing some methods of experiments by globs.

use globset::GlobMatcher;
use seekless_engine::method::Choice;
use seekless_record::Entry;

use super::error::nearest;
use super::expand::{glob, nearest_methods};
use super::{Experiment, ExperimentError};

/// What a glob chooses.
struct Pattern<'a> {
    text: &'a str,
    glob: GlobMatcher,
    /// The method, if the text names one: so `read_plain` chooses the method that it is an alias of.
    method: Option<Choice>,
}

impl<'a> Pattern<'a> {
    fn new(text: &'a str) -> Result<Self, ExperimentError> {
        let glob = glob(text).map_err(|message| ExperimentError::Glob {
            glob: text.to_owned(),
            message,
        })?;
        Ok(Self {
            text,
            glob,
            method: text.parse().ok(),
        })
    }

    /// By its text, its operation and mechanism, or the name under which it was published.
    fn takes(&self, entry: &Entry) -> bool {
        let text = entry.name();
        let mechanism = text.split([',', '=']).next().filter(|_| entry.command().is_none());
        let known = [Some(&*text), mechanism, entry.label.as_deref()];
        (self.method.is_some() && self.method == entry.choice())
            || known.into_iter().flatten().any(|known| self.glob.is_match(known))
    }
}

/// What matches any of the globs: a method by its text (`read/*,direct*`) or by its operation and mechanism (`read/sync`), a
/// command as `command/NAME`. A glob must match something in at least one of the experiments. Contests and experiments
/// without a match are left out. An empty list of globs chooses everything.
///
/// # Errors
/// [`ExperimentError::NoMatch`] where a glob matches nothing, [`ExperimentError::Glob`] where it is not valid.
pub fn filter(experiments: &[Experiment], globs: &[String]) -> Result<Vec<Experiment>, ExperimentError> {
    if globs.is_empty() {
        return Ok(experiments.to_vec());
    }
    let choices = globs
        .iter()
        .map(|text| Pattern::new(text))
        .collect::<Result<Vec<_>, _>>()?;
    for choice in &choices {
        if !entries(experiments).any(|entry| choice.takes(entry)) {
            return Err(no_match(choice.text, experiments));
        }
    }
    let chosen = experiments.iter().map(|experiment| choose(experiment, &choices));
    Ok(chosen.filter(|experiment| !experiment.contests.is_empty()).collect())
}

fn entries(experiments: &[Experiment]) -> impl Iterator<Item = &Entry> {
    let contests = experiments.iter().flat_map(|experiment| &experiment.contests);
    contests.flat_map(|contest| &contest.common.entries)
}

fn choose(experiment: &Experiment, choices: &[Pattern<'_>]) -> Experiment {
    let mut chosen = experiment.clone();
    for contest in &mut chosen.contests {
        let entries = &mut contest.common.entries;
        entries.retain(|entry| choices.iter().any(|choice| choice.takes(entry)));
    }
    chosen.contests.retain(|contest| !contest.common.entries.is_empty());
    chosen
}

/// The text may be a part of a name, or similar to names. They are sought in the experiments first; then the text may be a
/// method that the experiments do not have.
fn no_match(text: &str, experiments: &[Experiment]) -> ExperimentError {
    let around = format!("*{text}*");
    if Pattern::new(&around).is_ok_and(|part| entries(experiments).any(|entry| part.takes(entry))) {
        return ExperimentError::NoMatch {
            glob: text.to_owned(),
            nearest: vec![around],
        };
    }
    let methods = entries(experiments).filter(|entry| entry.command().is_none());
    let names: Vec<_> = methods.map(Entry::name).collect();
    let mut found = nearest(text, names.iter().map(|name| &**name));
    if found.is_empty() {
        found = nearest_methods(text);
    }
    ExperimentError::NoMatch {
        glob: text.to_owned(),
        nearest: found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(operation: &str, methods: &str) -> Experiment {
        let text = format!(
            "name = \"x\"\nabout = \"\"\n[[contest]]\noperation = \"{operation}\"\nmethods = [{methods}]\n\
             [[contest.command]]\nname = \"cat\"\nargv = [\"cat\", \"{{file}}\", \"{{target}}\"]\n"
        );
        Experiment::from_toml(&text, "x").unwrap_or_else(|error| panic!("{error}"))
    }

    fn chosen(globs: &[&str]) -> Result<Vec<String>, String> {
        let read = experiment("read", "\"read/sync,block=128K\", \"read/sync,direct\", \"read/mmap\"");
        let globs: Vec<String> = globs.iter().map(|&glob| glob.to_owned()).collect();
        let filtered = filter(std::slice::from_ref(&read), &globs)
            .map_err(|error| error.to_string())?
            .remove(0);
        let names = entries(std::slice::from_ref(&filtered)).map(|entry| entry.name().into_owned());
        Ok(names.collect())
    }

    #[test]
    fn globs_match_texts_mechanisms_aliases_and_commands() {
        let both = ["read/sync,block=128K", "read/sync,direct,block=128K"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(chosen(&["read/sync"]), Ok(both.clone()));
        assert_eq!(chosen(&["read/sync*"]), Ok(both.clone()));
        assert_eq!(chosen(&["*direct*"]), Ok(both[1..].to_vec()));
        assert_eq!(chosen(&["--direct"]), chosen(&["*direct*"]));
        let sentence = chosen(&["direct"]).unwrap_err();
        assert!(sentence.contains("`*direct*`"), "{sentence}");
        assert_eq!(chosen(&["read_plain"]), Ok(both[..1].to_vec()));
        let expected = Ok(vec!["read/mmap".to_owned(), "command/cat".to_owned()]);
        assert_eq!(chosen(&["command/*", "*/mmap"]), expected);
        assert_eq!(chosen(&[]).map(|all| all.len()), Ok(4));
    }

    #[test]
    fn globs_match_published_names_too() {
        let text = "name = \"x\"\nabout = \"\"\n[[contest]]\noperation = \"compare\"\n\
                    methods = [\"block-compare-4k\", \"block-compare-1M\", \"compare/mmap\"]\n";
        let experiment = Experiment::from_toml(text, "x").unwrap();
        let chosen = filter(&[experiment], &["block-*4k".to_owned()]).unwrap().remove(0);
        let methods: Vec<String> = chosen.contests[0].methods().map(|method| method.to_string()).collect();
        assert_eq!(methods, ["compare/sync,block=4K"]);
    }

    #[test]
    fn a_glob_without_a_match_is_answered_with_the_nearest() {
        let error = chosen(&["read/mmpa"]).unwrap_err();
        assert!(error.contains("`read/mmap`"), "{error}");
        assert!(chosen(&["[", "read/sync"]).unwrap_err().contains("is not a valid glob"));
    }

    #[test]
    fn several_experiments_may_share_the_globs() {
        let experiments = [experiment("read", "\"read/mmap\""), experiment("copy", "\"copy/sync\"")];
        let filtered = filter(&experiments, &["copy/*".to_owned()]).unwrap();
        assert_eq!(filtered.len(), 1);
        assert_eq!(filtered[0].contests[0].common.entries[0].name(), "copy/sync,block=1M");
    }
}
