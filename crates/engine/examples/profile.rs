//! How long it takes to find and read the profile of a storage, and to plan by it: `profile [PATH]`.
//!
//! Prints the first time and the median of each. The first plan parses the curves of its conditions. Without a profile, make one
//! (`seekless bench profile --budget 10m`), or name one (`SEEKLESS_PROFILE=FILE`).

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use seekless_engine::facts::{Facts, FileFacts, ProcessFacts};
use seekless_engine::method::Durability;
use seekless_engine::plan::{self, Task};
use seekless_engine::profile::StorageProfile;

const ROUNDS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    let task = Task {
        files: 1,
        bytes: 100 << 20,
        durability: Durability::None,
    };
    let file = FileFacts {
        bytes: task.bytes,
        allocated_bytes: task.bytes,
        resident: Some(0.0),
        direct_alignment: Some(4096),
        ..FileFacts::default()
    };
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let (reading, found) = timed(|| StorageProfile::for_plans(&path));
        let found = found.map_err(|why| why.to_string())?;
        let facts = Facts {
            profile: Some(&found),
            ..Facts::assumed([file; 2], ProcessFacts::without_rings())
        };
        let (first, plan) = timed(|| plan::read(&task, &facts));
        let (second, again) = timed(|| plan::read(&task, &facts));
        assert_eq!(plan.method, again.method);
        for (all, time) in times.iter_mut().zip([reading, first, second]) {
            all.push(time);
        }
    }
    for (what, mut all) in ["reading the profile", "the first plan", "another plan"]
        .iter()
        .zip(times)
    {
        let first = all[0];
        all.sort();
        println!("{what}: {:.1?}, at first {first:.1?}", all[ROUNDS / 2]);
    }
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let began = Instant::now();
    let done = work();
    (began.elapsed(), done)
}
