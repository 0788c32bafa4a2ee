//! Threads that are made with a method and wait for files, so that making them is outside any clock.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::Result;
use crate::setup::Setup;

/// Makes `threads` threads and waits until they run.
pub(crate) fn pool(setup: &Setup, threads: usize) -> Result<ThreadPool> {
    let builder = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|n| format!("seekless-{n}"));
    let pool = builder
        .build()
        .map_err(|error| setup.failed("making threads", std::io::Error::other(error)))?;
    pool.broadcast(|_| ());
    Ok(pool)
}
