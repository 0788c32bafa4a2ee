//! The text of a method: what parses prints a text that parses to the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekless_engine::Method;

fuzz_target!(|text: &str| {
    if let Ok(method) = text.parse::<Method>() {
        let printed = method.to_string();
        assert_eq!(
            printed.parse::<Method>().expect("what is printed parses"),
            method,
            "{text}"
        );
    }
});
