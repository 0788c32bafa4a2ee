//! The experiments of the directory `experiments/`, compiled in.

macro_rules! texts {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../experiments/", $name, ".toml")))),+]
    };
}

/// Names and texts. A test compares the list with the directory.
pub(super) const TEXTS: &[(&str, &str)] = texts![
    "read",
    "write",
    "copy",
    "compare",
    "update",
    "scan",
    "tools",
    "plan",
    "profile",
    "random",
    "commit",
    "read-ahead",
    "sustained",
    "holes-2003",
    "saving-2008",
    "preload-2009",
    "cmp-2012",
    "methods-2014"
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use seekless_engine::method::{ALIASES, Alias};
    use seekless_engine::{Method, Operation};
    use seekless_record::Cache;

    use super::*;
    use crate::experiment::Experiment;
    use crate::experiment::{ContestPlan, Size};

    #[test]
    fn builtin_list_is_the_directory_and_names_its_files() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let files: BTreeSet<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(files, TEXTS.iter().map(|(name, _)| (*name).to_owned()).collect());
        for (name, _) in TEXTS {
            let experiment = Experiment::builtin(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(experiment.name, *name);
        }
    }

    #[test]
    fn unknown_experiments_are_answered_with_the_nearest() {
        let error = Experiment::builtin("raed").unwrap_err().to_string();
        assert!(error.contains("did you mean `read`"), "{error}");
        assert!(error.contains("methods-2014"), "{error}");
    }

    #[test]
    fn default_experiments_rank_what_is_durable_and_need_no_choice() {
        for name in ["write", "copy"] {
            for contest in Experiment::builtin(name).unwrap().contests {
                let mut methods = contest.methods().map(|method| method.to_string());
                assert!(methods.all(|method| method.ends_with(",fsync")), "{name}");
                assert_eq!(contest.sizes, [Size::Bytes(1 << 20), Size::Auto]);
            }
        }
        let read = Experiment::builtin("read").unwrap();
        assert_eq!(read.contests[0].caches, [Cache::Cold, Cache::Warm]);
    }

    #[test]
    fn holes_2003_has_the_files_of_that_document_and_its_figures() {
        let experiment = Experiment::builtin("holes-2003").unwrap();
        let contests = experiment.contests.iter();
        let over = contests.clone().filter(|contest| contest.caches.contains(&Cache::Over));
        assert!(over.map(|contest| contest.common.memory_bytes).eq([Some(512 << 20); 2]));
        let layouts = contests.flat_map(|contest| &contest.layouts);
        let layouts: Vec<String> = layouts.map(ToString::to_string).collect();
        for finding in &experiment.published[0].findings {
            let layout = finding.layout.clone().unwrap_or_else(|| "dense".to_owned());
            assert!(layouts.contains(&layout), "{layout}");
        }
    }

    #[test]
    fn saving_2008_has_every_column_of_its_document() {
        let experiment = Experiment::builtin("saving-2008").unwrap();
        let names: Vec<&str> = experiment.columns.iter().map(|column| column.name.as_str()).collect();
        let [first, rest @ ..] = &names[..4] else {
            panic!("{names:?}")
        };
        let updates = ["Sequential Sparse", "Sequential", "Random"].map(|order| format!("{order} Update Write"));
        let expected = ("Initial write", &updates.each_ref().map(String::as_str)[..]);
        assert_eq!((*first, rest), expected);
        for column in &experiment.columns {
            let glob = crate::experiment::expand::glob(&column.methods).unwrap();
            let is_meant = |contest: &&ContestPlan| {
                let contest = &contest.common;
                contest.operation == column.operation
                    && column.target.is_none_or(|target| target == contest.target)
                    && (column.draw.is_none() || column.draw == contest.updates.map(|updates| updates.draw))
            };
            let contests = experiment.contests.iter().filter(is_meant);
            let methods = contests.flat_map(ContestPlan::methods);
            let methods = methods.filter(|method| glob.is_match(method.to_string()));
            let durabilities: BTreeSet<&str> = methods.map(|method| method.durability().name()).collect();
            let expected = BTreeSet::from(["none", "write-through"]);
            assert_eq!(durabilities, expected, "{}", column.name);
        }
        let findings: Vec<_> = (experiment.published.iter())
            .flat_map(|source| &source.findings)
            .collect();
        for finding in &findings {
            assert!(names[..4].contains(&finding.method.as_str()) && finding.seconds.is_some());
        }
        // The text's three, and four of each machine in its comments.
        assert_eq!(findings.len(), 3 + 4 * 4);
    }

    #[test]
    fn methods_2014_has_every_linux_method_with_each_of_its_blocks() {
        let experiment = Experiment::builtin("methods-2014").unwrap();
        let methods = experiment.contests.iter().flat_map(ContestPlan::methods);
        let methods: BTreeSet<String> = methods.map(|method| method.to_string()).collect();
        let is_meant = |alias: &&Alias| alias.document == 2014 && alias.listed != "OS X";
        for alias in ALIASES.iter().filter(is_meant) {
            let method: Method = alias.method.parse().unwrap();
            let is_durable = method.operation() != Operation::Read;
            let durable = if is_durable { ",fsync" } else { "" };
            let takes_blocks = method.options().block_bytes().is_some();
            let blocks = "4K 8K 12K 16K 24K 32K 40K 48K 56K 64K 256K 1M 4M 16M 64M 256M";
            for block in blocks.split(' ').take(if takes_blocks { 16 } else { 1 }) {
                let block = if takes_blocks { &format!(",block={block}") } else { "" };
                let wanted: Method = format!("{}{block}{durable}", alias.name).parse().unwrap();
                assert!(methods.contains(&wanted.to_string()), "{}: {wanted}", alias.name);
            }
        }
        assert!(experiment.contests.iter().all(|contest| contest.sizes.len() == 8));
    }
}
