//! The errors of one side of an operation, which name its file and its method.

use std::io;

use seekless_method::CachePolicy;
use seekless_sys::Support;

use super::OpenFile;
use crate::error::{Error, FailedCall, Result, UpdateErrorKind};

impl OpenFile<'_> {
    /// The value of a call that the platform may lack.
    pub fn support<T>(&self, action: impl Into<FailedCall>, given: io::Result<Support<T>>) -> Result<T> {
        match given {
            Ok(Support::Available(value)) => Ok(value),
            Ok(Support::Unavailable(reason)) => Err(self.unavailable(reason)),
            Err(error) => Err(self.failed(action, error)),
        }
    }

    #[cold]
    pub fn failed(&self, action: impl Into<FailedCall>, source: io::Error) -> Error {
        Error::by(self.method, self.path, action, source)
    }

    /// An fsync that failed.
    pub fn not_synced(&self, source: io::Error) -> Error {
        let method = *self.method;
        UpdateErrorKind::NotSynced { method, source }.at(self.path)
    }

    pub fn unavailable(&self, reason: &str) -> Error {
        Error::unavailable(self.method, self.path, reason)
    }

    /// The error of a request that came back through a ring.
    pub fn request_failed(&self, action: &'static str, offset: u64, error: io::Error) -> Error {
        if self.method.options().cache() == CachePolicy::DontCache && error.kind() == io::ErrorKind::Unsupported {
            return self.unavailable("the file system cannot bypass the page cache");
        }
        self.failed((action, offset), error)
    }

    #[cold]
    pub fn resized(&self, found_bytes: u64) -> Error {
        Error::Resized {
            path: self.path.to_owned(),
            method: *self.method,
            expected_bytes: self.bytes,
            found_bytes,
        }
    }
}
