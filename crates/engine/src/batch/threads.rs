//! Several files at a time, one per thread, for calls other than reads that wait for the device.

/// Threads that share files. They are started when there is more than one file. Without the feature `threads`, files
/// are processed one after the other.
pub struct Threads {
    #[cfg_attr(not(feature = "threads"), expect(dead_code, reason = "there is one"))]
    threads: usize,
    #[cfg(feature = "threads")]
    pool: std::sync::OnceLock<Option<rayon::ThreadPool>>,
}

impl Threads {
    /// At most this many.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            #[cfg(feature = "threads")]
            pool: std::sync::OnceLock::new(),
        }
    }

    /// The result for each file, in their order.
    #[cfg(feature = "threads")]
    pub fn map<F: Sync, T: Send>(&self, files: &[F], one: impl Fn(&F) -> T + Sync) -> Vec<T> {
        use rayon::prelude::*;
        // Without the feature, files are processed one after the other.
        let make = || crate::threads::pool(self.threads).ok();
        let pool = (files.len() > 1).then(|| self.pool.get_or_init(make));
        match pool.and_then(Option::as_ref) {
            // Threads take few files at a time, so that a large one does not delay its neighbours.
            Some(pool) => pool.install(|| files.par_iter().with_max_len(4).map(&one).collect()),
            None => files.iter().map(one).collect(),
        }
    }

    /// The result for each file, in their order.
    #[cfg(not(feature = "threads"))]
    pub fn map<F: Sync, T: Send>(&self, files: &[F], one: impl Fn(&F) -> T + Sync) -> Vec<T> {
        files.iter().map(one).collect()
    }
}
