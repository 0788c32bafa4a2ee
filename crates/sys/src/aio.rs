//! POSIX AIO (aio(7)) made safe by ownership: [`Aio`] owns the memory and the control block that the system writes to.
//!
//! glibc does the requests in threads of its own and serialises those of one descriptor; macOS does them in the kernel, a
//! few at a time. Where the C library has none, or one that nobody measured, the same type says so when made.

#[cfg(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos"))]
#[path = "aio/posix.rs"]
mod implementation;
#[cfg(not(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos")))]
#[path = "aio/absent.rs"]
mod implementation;

pub use implementation::Aio;
