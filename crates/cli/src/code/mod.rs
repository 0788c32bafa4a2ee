//! Programs in C, Python and Rust that do what a method does, for users who do not use the library.
//!
//! A language is a row of [`LANGUAGES`] with a template. A line `%% GUARD` begins lines that are only for some methods;
//! `%% all` begins lines for every method. A guard consists of clauses separated by `;`, which must all hold. A clause
//! is a list of words: one of them must be among the [`facts`] of the method, or, if the clause begins with `!`, none.
//! `calls.txt` has the same form and describes the system calls, once for all languages.

use anyhow::bail;
use seekless_engine::Method;
use seekless_engine::method::{
    AccessPattern, CachePolicy, Durability, Hint, Operation, Platform, Preallocate, Setting,
};

/// A language that programs are written in.
#[derive(Debug)]
pub struct Language {
    /// Its word on the command line.
    pub word: &'static str,
    /// Its name, for the help.
    pub name: &'static str,
    template: &'static str,
    comment: &'static str,
    /// The methods that it lacks, as guards with reasons.
    lacks: &'static [(&'static str, &'static str)],
}

const CALLS: &str = include_str!("calls.txt");

/// The languages.
pub static LANGUAGES: [Language; 3] = [
    Language {
        word: "c",
        name: "C11 for Linux",
        template: include_str!("c.txt"),
        comment: "//",
        lacks: &[],
    },
    Language {
        word: "python",
        name: "Python 3.10 for Linux",
        template: include_str!("python.txt"),
        comment: "#",
        lacks: &[
            ("posix-aio", "Python's standard library has no aio_read(3)"),
            ("io_uring", "Python's standard library has no io_uring(7)"),
            ("readahead", "Python's standard library has no readahead(2)"),
        ],
    },
    Language {
        word: "rust",
        name: "Rust for Linux, with the crate rustix",
        template: include_str!("rust.txt"),
        comment: "//",
        lacks: &[
            ("posix-aio", "rustix has no aio_read(3)"),
            ("readahead", "rustix has no readahead(2)"),
        ],
    },
];

/// The methods for which no language has a program.
const LACKING: &[(&str, &str)] = &[
    (
        "compare update scan",
        "programs are for methods that read, write or copy",
    ),
    ("macos", "programs are for Linux"),
    ("at-random", "a program that draws its blocks does not fit on a page"),
    (
        "write; threads",
        "a program whose threads write in turn does not fit on a page",
    ),
    (
        "io_uring; fdatasync-each",
        "a program that links requests of a ring does not fit on a page",
    ),
    ("holes", "a program that skips holes does not fit on a page"),
    ("odd-block", "with direct, the block of a program is a multiple of 4K"),
];

impl Language {
    /// A complete program that does what the method does, after a comment with the flags, the alignment and the calls.
    ///
    /// # Errors
    /// If this language has no program for the method. The error gives the reason, and the languages that have one.
    pub fn program(&self, method: &Method) -> anyhow::Result<String> {
        let facts = facts(method);
        if let Some(reason) = self.why_lacking(&facts) {
            let others = LANGUAGES.iter().filter(|other| other.why_lacking(&facts).is_none());
            let others: Vec<String> = others.map(|other| format!("--code {}", other.word)).collect();
            let advice = (!others.is_empty()).then(|| format!("; {} works", others.join(" or ")));
            let advice = advice.unwrap_or_default();
            bail!("no program for {method} in {}: {reason}{advice}", self.word);
        }
        let calls = commented(&filled(&chosen(CALLS, &facts), method), self.comment);
        let template = chosen(self.template, &facts);
        Ok(filled(&template.replace("{calls}\n", &calls), method))
    }

    /// The program of a planned method. A plan for a copy skips holes, and its program says that it does not.
    ///
    /// # Errors
    /// As for [`Self::program`].
    pub fn program_of_plan(&self, method: &Method) -> anyhow::Result<String> {
        if !method.options().holes_skipped() {
            return self.program(method);
        }
        let program = self.program(&method.with(Setting::holes_skipped(false))?)?;
        let note = format!(
            "{} The plan is {method}. This program does not skip holes: it copies them as zeros.",
            self.comment
        );
        let first_end = program.find('\n').filter(|_| program.starts_with("#!"));
        let after_first = first_end.map_or(0, |end| end + 1);
        let (first, rest) = program.split_at(after_first);
        Ok(format!("{first}{note}\n{rest}"))
    }

    fn why_lacking(&self, facts: &[&str]) -> Option<&'static str> {
        let mut lacking = LACKING.iter().chain(self.lacks);
        let found = lacking.find(|(guard, _)| holds(guard, facts));
        found.map(|(_, reason)| *reason)
    }
}

/// The words that guards test.
fn facts(method: &Method) -> Vec<&'static str> {
    let (mechanism, options) = (method.mechanism(), method.options());
    let (cache, hint, preallocate) = (options.cache(), options.hint(), options.preallocate());
    let mut facts = vec!["all", mechanism.operation.name(), mechanism.name, cache.name()];
    let is_copied_or_read = matches!(mechanism.operation, Operation::Read | Operation::Copy);
    let is_of_macos = !mechanism.platforms.contains(&Platform::Linux) || matches!(hint, Hint::RdAhead | Hint::RdAdvise);
    let has_odd_block = !options.block_bytes().unwrap_or(0).is_multiple_of(4096);
    let optional = [
        (is_copied_or_read && hint != Hint::None, hint.name()),
        (options.durability() != Durability::None, options.durability().name()),
        (options.block_bytes().is_some(), "block"),
        (options.holes_skipped(), "holes"),
        (options.access() == AccessPattern::Random, "at-random"),
        (
            matches!(preallocate, Preallocate::Allocate | Preallocate::Both),
            "allocate",
        ),
        (
            matches!(preallocate, Preallocate::Truncate | Preallocate::Both),
            "truncate",
        ),
        (is_of_macos, "macos"),
        (cache == CachePolicy::Direct && has_odd_block, "odd-block"),
    ];
    facts.extend(optional.into_iter().filter(|(is_so, _)| *is_so).map(|(_, fact)| fact));
    facts
}

fn holds(guard: &str, facts: &[&str]) -> bool {
    guard.split(';').map(str::trim).all(|clause| {
        let (words, wanted) = clause.strip_prefix('!').map_or((clause, true), |words| (words, false));
        words.split_whitespace().any(|word| facts.contains(&word)) == wanted
    })
}

/// The lines of a template that apply to a method with these facts.
fn chosen(template: &str, facts: &[&str]) -> String {
    let mut text = String::new();
    let mut is_meant = true;
    for line in template.lines() {
        match line.strip_prefix("%%") {
            Some(guard) => is_meant = holds(guard, facts),
            None if is_meant => text.extend([line, "\n"]),
            None => {}
        }
    }
    text
}

fn commented(text: &str, comment: &str) -> String {
    let lines = text.lines().map(|line| format!("{comment} {line}"));
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The template with its placeholders replaced by the method's values.
fn filled(text: &str, method: &Method) -> String {
    let options = method.options();
    let is_mapped = method.mechanism().name == "mmap";
    // A map begins at a page.
    let page = if is_mapped { 4096 } else { 1 };
    let block = options.block_bytes().unwrap_or(0).next_multiple_of(page);
    let flag = |is_set: bool, flag: &str| if is_set { flag.to_owned() } else { String::new() };
    let is_synced = options.durability() == Durability::WriteThrough;
    let values = [
        ("{method}", method.to_string()),
        ("{mechanism}", method.mechanism().name.to_owned()),
        ("{about}", method.mechanism().about.to_owned()),
        ("{block}", block.to_string()),
        ("{depth}", options.depth().unwrap_or(1).to_string()),
        ("{threads}", options.threads().to_string()),
        ("{direct}", flag(options.cache() == CachePolicy::Direct, " | O_DIRECT")),
        ("{dsync}", flag(is_synced, " | O_DSYNC")),
        ("{libraries}", flag(method.mechanism().name == "io_uring", " -luring")),
    ];
    let replaced = |text: String, (name, value): (&str, String)| text.replace(name, &value);
    values.into_iter().fold(text.to_owned(), replaced)
}

#[cfg(test)]
mod tests {
    use seekless_engine::method::{MECHANISMS, variants};

    use super::*;

    #[test]
    fn every_word_of_a_guard_is_a_fact_of_some_method() {
        let methods = MECHANISMS.iter().flat_map(variants);
        let known: Vec<_> = methods.flat_map(|method| facts(&method)).collect();
        let templates = LANGUAGES.iter().map(|language| language.template).chain([CALLS]);
        let in_templates = templates
            .flat_map(str::lines)
            .filter_map(|line| line.strip_prefix("%%"));
        let lacks = LANGUAGES.iter().flat_map(|language| language.lacks);
        let guards = in_templates.chain(lacks.chain(LACKING).map(|(guard, _)| *guard));
        for guard in guards {
            let words = guard.split([' ', ';', '!']).filter(|word| !word.is_empty());
            for word in words.filter(|word| *word != "odd-block") {
                assert!(known.contains(&word), "{word} of {guard}");
            }
        }
    }

    #[test]
    fn every_method_has_a_program_or_a_reason_and_no_name_is_left_in_it() {
        for method in MECHANISMS.iter().flat_map(variants) {
            for language in &LANGUAGES {
                match language.program(&method) {
                    Ok(program) => {
                        let left = ["{method", "{block", "{direct", "{dsync", "{calls", "{about", "%%"];
                        assert!(!left.iter().any(|name| program.contains(name)), "{program}");
                    }
                    Err(error) => assert!(error.to_string().contains(": "), "{error}"),
                }
            }
        }
    }

    #[test]
    fn a_refusal_names_the_languages_that_have_a_program() {
        let refusal = |language: usize, method: &str| {
            let error = LANGUAGES[language].program(&method.parse().unwrap()).unwrap_err();
            error.to_string()
        };
        assert!(refusal(1, "read/io_uring").ends_with("; --code c or --code rust works"));
        assert!(refusal(2, "read/posix-aio").ends_with("; --code c works"));
        assert!(refusal(0, "copy/sync,holes=skip").ends_with("does not fit on a page"));
        assert!(refusal(0, "compare/sync").ends_with("read, write or copy"));
    }
}
