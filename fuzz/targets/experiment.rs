//! The text of an experiment: it is one, or an error that says where.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekless_lab::experiment::Experiment;

fuzz_target!(|text: &str| {
    match Experiment::from_toml(text, "fuzz.toml") {
        Ok(experiment) => assert!(!experiment.contests.is_empty()),
        Err(error) => assert!(error.to_string().starts_with("fuzz.toml:"), "{error}"),
    }
});
