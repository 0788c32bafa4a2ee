//! `seekless cmp` compared with the system's cmp, if that is GNU's: the same output, byte for byte, and the same exit
//! codes, in thousands of random cases.
//!
//! `SEEKLESS_CMP_CASES` asks for more cases, and `SEEKLESS_CMP_SEED` for those of another seed; a failed case is
//! reported with its seed, with which it is the first. Options of only one of the two are not tried here.

mod case;
mod run;

use std::env;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use case::Case;
use run::{Bench, Ended};

/// More with `SEEKLESS_TEST_LONG`.
const CASES: u64 = 600;
const CASES_LONG: u64 = 6000;
const SEED: u64 = 2012;
/// After this many failures, the test ends.
const FAILURES_MAX: usize = 5;

fn number(name: &str, default: u64) -> u64 {
    let set = env::var(name).ok();
    set.map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

/// Why the system's cmp cannot be the reference.
fn why_not_here() -> Option<String> {
    match Command::new("cmp").arg("--version").output() {
        Err(error) => Some(format!("cmp: {error}")),
        Ok(output) if !output.stdout.starts_with(b"cmp (GNU diffutils)") => Some("cmp is not GNU's".to_owned()),
        Ok(_) => None,
    }
}

#[test]
fn cmp_answers_random_cases_as_gnu_cmp() {
    if let Some(reason) = why_not_here() {
        println!("skipped: {reason}");
        return;
    }
    let is_long = env::var_os("SEEKLESS_TEST_LONG").is_some();
    let cases = if is_long { CASES_LONG } else { CASES };
    let (seed, cases) = (number("SEEKLESS_CMP_SEED", SEED), number("SEEKLESS_CMP_CASES", cases));
    println!("{cases} cases from SEEKLESS_CMP_SEED={seed}");
    let (next, failures) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let workers = thread::available_parallelism().map_or(2, usize::from).min(8);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let bench = Bench::new();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= cases || failures.lock().expect("no panic elsewhere").len() >= FAILURES_MAX {
                        break;
                    }
                    if let Some(failure) = difference(&bench, seed.wrapping_add(index)) {
                        failures.lock().expect("no panic elsewhere").push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic elsewhere");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The differences between the two in a case.
fn difference(bench: &Bench, seed: u64) -> Option<String> {
    let case = Case::random(seed);
    bench.lay_out(&case);
    let theirs = bench.run_theirs(&case);
    let ours = bench.run_ours(&case);
    (theirs != ours).then(|| format!("SEEKLESS_CMP_SEED={seed}\n{case:?}\ncmp:  {theirs:?}\nours: {ours:?}\n"))
}

#[test]
fn cmp_like_gnu_notices_a_difference() {
    if why_not_here().is_some() {
        return;
    }
    let bench = Bench::new();
    let (equal, different) = (Case::plain(b"a", b"a"), Case::plain(b"a", b"b"));
    bench.lay_out(&equal);
    assert_eq!(bench.run_theirs(&equal).code, Some(0));
    bench.lay_out(&different);
    let Ended { code, stdout, .. } = bench.run_theirs(&different);
    assert_eq!(
        (code, stdout.as_slice()),
        (Some(1), &b"one other differ: char 1, line 1\n"[..])
    );
}
