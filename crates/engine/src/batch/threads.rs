//! Several files at once, a thread each: for what waits for the device in other calls than reads.

/// Threads that share files. They begin with the first files that are several. Without the feature `threads` files are worked
/// on one after the other.
#[derive(Default)]
pub struct Threads {
    #[cfg(feature = "threads")]
    pool: std::sync::OnceLock<Option<rayon::ThreadPool>>,
}

impl Threads {
    /// What comes of each file, in their order.
    #[cfg(feature = "threads")]
    pub fn map<F: Sync, T: Send>(&self, files: &[F], one: impl Fn(&F) -> T + Sync) -> Vec<T> {
        use rayon::prelude::*;
        // Without threads of our own files are worked on one after the other.
        let make = || crate::threads::pool(crate::plan::THREADS_OF_FILES).ok();
        let pool = (files.len() > 1).then(|| self.pool.get_or_init(make));
        match pool.and_then(Option::as_ref) {
            // A large file must not keep those beside it waiting, so threads take few at a time.
            Some(pool) => pool.install(|| files.par_iter().with_max_len(4).map(&one).collect()),
            None => files.iter().map(one).collect(),
        }
    }

    /// What comes of each file, in their order.
    #[cfg(not(feature = "threads"))]
    pub fn map<F: Sync, T: Send>(&self, files: &[F], one: impl Fn(&F) -> T + Sync) -> Vec<T> {
        files.iter().map(one).collect()
    }
}
