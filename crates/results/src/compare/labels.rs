//! A comparison in words and tables, in which texts are harmless.

use seekless_method::visible;
use seekless_record::Interval;

use super::{Change, ContestChange, MethodChange, MissingMethod, RunComparison};
use crate::sheet::{Sheet, SheetCell};
use crate::units::{rate, times_with_bounds};

/// The number of methods to show if none has enough rounds, and of reasons.
const FEWEST_SHOWN: usize = 4;

impl Change {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoneShown => "inconclusive",
            Self::TooFewRounds => "too few rounds",
        }
    }

    fn with_bounds(self, time: &Interval) -> String {
        let Interval { low, median, high, .. } = time;
        match self {
            Self::Faster => format!("{:.2}x faster ({:.2} to {:.2})", 1.0 / median, 1.0 / high, 1.0 / low),
            Self::Slower => format!("{median:.2}x slower ({low:.2} to {high:.2})"),
            Self::NoneShown | Self::TooFewRounds => format!("{} ({low:.2} to {high:.2})", self.word()),
        }
    }
}

impl RunComparison {
    /// The answer as a sentence, with what it rests on.
    #[must_use]
    pub fn answer_in_words(&self) -> String {
        let answer = &self.answer;
        if self.contests.iter().all(|contest| contest.sustained.is_some()) {
            return "A sustained write is not ranked; see below what each run showed.".to_owned();
        }
        let Some(time) = &answer.time else {
            return "Undecided: no method or command has 6 rounds in both runs.".to_owned();
        };
        let ratio = format!(
            "{:.2}x as long as the first ({:.2} to {:.2})",
            time.median, time.low, time.high
        );
        let shown = match Change::of(time) {
            Change::Faster | Change::Slower => "The",
            Change::NoneShown | Change::TooFewRounds => "No difference is shown: the",
        };
        let counts = match (answer.contests, answer.faster, answer.slower) {
            (1, ..) => " One contest was compared.".to_owned(),
            (all, faster, slower) => format!(
                " Of {all} contests, it is faster in {faster}, slower in {slower}, not told apart in {}.",
                all - faster - slower
            ),
        };
        let few = match answer.too_few_rounds {
            0 => String::new(),
            1 => " 1 more contest has too few rounds.".to_owned(),
            more => format!(" {more} more contests have too few rounds."),
        };
        let is_quiet = self.cautions.is_empty();
        let caution = if is_quiet {
            ""
        } else {
            " The machine changed or was busy: see the notes."
        };
        format!("{shown} second run takes {ratio}.{counts}{few}{caution}")
    }

    /// What differs, what changed, and what is to be noted: a label and a sentence each.
    #[must_use]
    pub fn notes(&self, objections: &[String]) -> Vec<(&'static str, String)> {
        const ADVICE: &str = "Do not compare absolute times and rates of the two runs. `vs reference` can be compared: it \
                              relates a method to the reference in the same rounds.";
        let labelled = [
            ("Differs", objections),
            ("Changed", &self.changed),
            ("Note", &self.cautions),
        ];
        let notes = labelled
            .into_iter()
            .flat_map(|(label, texts)| texts.iter().map(move |text| (label, visible(text))));
        let notes = notes.map(|(label, text)| (label, text.into_owned()));
        let advice = (!self.cautions.is_empty()).then(|| ("", ADVICE.to_owned()));
        notes.chain(advice).collect()
    }

    /// What only one of the runs measured, a sentence for each run that has something of its own.
    #[must_use]
    pub fn only(&self) -> Vec<String> {
        let runs = [(&self.only_first, "first"), (&self.only_second, "second")].into_iter();
        let runs = runs.filter(|(only, _)| !only.is_empty());
        runs.map(|(only, which)| format!("Only in the {which} run: {}", visible(&only.join("; "))))
            .collect()
    }
}

impl ContestChange {
    /// The methods to show: all of them, or those with enough rounds, where there are such.
    #[must_use]
    pub fn shown(&self, all: bool) -> Vec<&MethodChange> {
        let is_shown = |method: &&MethodChange| all || method.change != Change::TooFewRounds;
        let shown: Vec<&MethodChange> = self.methods.iter().filter(is_shown).collect();
        if shown.is_empty() {
            return self.methods.iter().take(FEWEST_SHOWN).collect();
        }
        shown
    }

    /// The table of these methods.
    #[must_use]
    pub fn sheet(&self, all: bool) -> Sheet {
        let storage = self.storage.as_ref().map(|storage| format!(": {}", visible(storage)));
        let title = format!("{}{}", visible(&self.title), storage.unwrap_or_default());
        let mut sheet = Sheet::new(title);
        for method in self.shown(all) {
            let [before, now] = method
                .bytes_per_second
                .map(|speed| SheetCell::figure(Some(speed), rate));
            let (beside, time) = (method.beside_reference.as_ref(), &method.time);
            let median = beside.map(|ratio| ratio.median);
            let beside = SheetCell::figure(median, |_| beside.map_or_else(String::new, times_with_bounds));
            let change = SheetCell::figure(Some(time.median), |_| method.change.with_bounds(time));
            let cells = [
                ("method", SheetCell::method(short(&method.method))),
                ("before", before),
                ("now", now),
                ("vs reference", beside),
                ("change", change),
            ];
            sheet.push(None, cells);
        }
        sheet
    }

    /// What the table leaves out: methods with too few rounds, the reference, and methods that only one run measured. `hint` follows
    /// what `all` would show.
    #[must_use]
    pub fn asides(&self, all: bool, hint: &str) -> Vec<String> {
        let shown = self.shown(all).len();
        let hidden = self.methods.len() - shown;
        let hidden = (hidden > 0).then(|| format!("... {hidden} more, with fewer than 6 rounds{hint}"));
        let reference = self.reference.as_ref().filter(|_| shown > 1);
        let reference = reference.map(|reference| format!("the reference is {}", short(reference)));
        let fewest = if all { usize::MAX } else { FEWEST_SHOWN };
        let new = told_apart("now measured", &self.new, "was", fewest, hint);
        let gone = told_apart("no longer measured", &self.gone, "is", fewest, hint);
        hidden.into_iter().chain(reference).chain(new).chain(gone).collect()
    }

    /// The methods to use and the fastest, before and now, unless no difference is shown; for a sustained write, the course of its rate.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        if let Some([before, now]) = &self.sustained {
            return vec![format!("Before: {}", visible(before)), format!("Now: {}", visible(now))];
        }
        let is_shown = |method: &MethodChange| matches!(method.change, Change::Faster | Change::Slower);
        let told = [("Recommended", &self.recommended), ("Fastest", &self.best)].into_iter();
        let told = told.filter(|(_, [before, now])| before == now || self.methods.iter().any(is_shown));
        told.map(|(word, [before, now])| {
            let name = |method: &Option<String>| method.as_deref().map_or("undecided".into(), visible).into_owned();
            if before == now {
                format!("{word}: as before, {}", name(now))
            } else {
                format!("{word}: now {}, before {}", name(now), name(before))
            }
        })
        .collect()
    }
}

/// A line for each of the first methods, and one for the others.
fn told_apart(what: &str, methods: &[MissingMethod], verb: &str, most: usize, hint: &str) -> Vec<String> {
    let told = methods.iter().take(most).map(|one| {
        let why = visible(&one.why).into_owned();
        format!("{what}: {} ({verb} {why})", short(&one.method))
    });
    let mut told: Vec<String> = told.collect();
    if methods.len() > most {
        told.push(format!("{what}: {} more{hint}", methods.len() - most));
    }
    told
}

/// A method without its operation, as tables over several runs show it.
#[must_use]
pub fn short(method: &str) -> String {
    let name = method.split_once('/').map_or(method, |(_, name)| name);
    visible(&name.replacen(',', " ", 1)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, median: f64, high: f64) -> Interval {
        Interval {
            low,
            median,
            high,
            coverage: Some(0.94),
        }
    }

    #[test]
    fn a_change_is_told_as_a_factor_above_one_with_its_interval() {
        let words = |change: Change, low, median, high| change.with_bounds(&interval(low, median, high));
        assert_eq!(words(Change::Faster, 0.4, 0.5, 0.8), "2.00x faster (1.25 to 2.50)");
        assert_eq!(words(Change::Slower, 1.1, 1.5, 2.0), "1.50x slower (1.10 to 2.00)");
        assert_eq!(words(Change::NoneShown, 0.9, 1.0, 1.1), "inconclusive (0.90 to 1.10)");
    }
}
