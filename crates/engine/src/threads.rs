//! Threads that wait for files: rayon's, started in advance, or without the feature `threads`, new
//! ones each time for a method, and none for several files.

#[cfg(feature = "threads")]
pub(crate) use rayon::ThreadPool;

#[cfg(not(feature = "threads"))]
pub(crate) use plain::ThreadPool;

use std::io;

/// A pool of this many threads. With the feature `threads`, they are running when this returns, so starting them is
/// outside the clock.
#[cfg(feature = "threads")]
pub(crate) fn pool(threads: usize) -> io::Result<ThreadPool> {
    let builder = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|n| format!("seekless-{n}"));
    let pool = builder.build().map_err(io::Error::other)?;
    pool.broadcast(|_| ());
    Ok(pool)
}

#[cfg(not(feature = "threads"))]
#[expect(clippy::unnecessary_wraps, reason = "starting rayon's threads can fail")]
pub(crate) fn pool(threads: usize) -> io::Result<ThreadPool> {
    Ok(ThreadPool(threads))
}

/// Threads that share files. They are started when there is more than one file. Without the feature `threads`, files
/// are processed one after the other.
pub struct Threads {
    #[cfg_attr(not(feature = "threads"), expect(dead_code, reason = "there is one"))]
    threads: usize,
    #[cfg(feature = "threads")]
    pool: std::sync::OnceLock<Option<ThreadPool>>,
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
        let make = || pool(self.threads).ok();
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

#[cfg(not(feature = "threads"))]
mod plain {
    use std::thread;

    /// The number of threads of a scope.
    pub(crate) struct ThreadPool(pub(super) usize);

    pub(crate) struct Scope<'scope, 'env: 'scope>(&'scope thread::Scope<'scope, 'env>);

    /// Stands in for the scope that rayon passes.
    pub(crate) struct Spawned;

    impl ThreadPool {
        pub fn current_num_threads(&self) -> usize {
            self.0
        }

        #[expect(clippy::unused_self, reason = "rayon's method needs it")]
        pub fn in_place_scope<'env, T>(&self, body: impl for<'scope> FnOnce(&Scope<'scope, 'env>) -> T) -> T {
            thread::scope(|scope| body(&Scope(scope)))
        }
    }

    impl<'scope> Scope<'scope, '_> {
        pub fn spawn(&self, body: impl FnOnce(Spawned) + Send + 'scope) {
            self.0.spawn(|| body(Spawned));
        }
    }
}
