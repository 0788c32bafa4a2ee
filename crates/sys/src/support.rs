//! "Not available here" as a value: [`Support`], and the one place where an errno turns into it.
//!
//! A method that a platform, kernel or file system lacks is skipped with a reason; that is not a failure. All other
//! problems are an [`io::Error`]. The caller decides what to do about either.

use std::io;

use rustix::io::Errno;

/// The result of a call that a platform may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support<T> {
    /// The platform has it; this is the result.
    Available(T),
    /// The platform, kernel or file system lacks it; the reason is a lower-case phrase for the user.
    Unavailable(&'static str),
}

impl<T> Support<T> {
    /// The value, without the reason if there is none.
    pub fn available(self) -> Option<T> {
        match self {
            Self::Available(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }

    /// The value, or an error with the reason why there is none.
    ///
    /// # Errors
    /// Where it is unavailable.
    pub fn required(self) -> io::Result<T> {
        match self {
            Self::Available(value) => Ok(value),
            Self::Unavailable(reason) => Err(io::Error::other(reason)),
        }
    }

    /// Maps the value; keeps the reason if there is none.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Support<U> {
        match self {
            Self::Available(value) => Support::Available(change(value)),
            Self::Unavailable(reason) => Support::Unavailable(reason),
        }
    }
}

#[cfg(test)]
impl<T> Support<T> {
    /// Returns the value, or prints that a test is skipped and why.
    pub(crate) fn or_skip(self) -> Option<T> {
        if let Self::Unavailable(reason) = &self {
            println!("skipped: {reason}");
        }
        self.available()
    }
}

/// Errnos that mean that the kernel or file system does not have a call.
pub(crate) const ABSENT: &[Errno] = &[Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOTTY];

/// [`ABSENT`], and the errnos by which calls on two files refuse a pair.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) const ABSENT_FOR_PAIR: &[Errno] = &[
    Errno::NOSYS,
    Errno::OPNOTSUPP,
    Errno::NOTSUP,
    Errno::NOTTY,
    Errno::XDEV,
    Errno::INVAL,
];

/// The result of a call of the C library: for -1, the error in errno.
pub(crate) fn checked<T: Copy + PartialEq + From<i8>>(answer: T) -> rustix::io::Result<()> {
    if answer == T::from(-1) {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(())
}

/// Repeats a call while signals interrupt it. The errnos in `absent` mean "not available".
pub(crate) fn attempt<T>(
    absent: &[Errno],
    reason: &'static str,
    call: impl FnMut() -> rustix::io::Result<T>,
) -> io::Result<Support<T>> {
    match rustix::io::retry_on_intr(call) {
        Ok(value) => Ok(Support::Available(value)),
        Err(errno) if absent.contains(&errno) => Ok(Support::Unavailable(reason)),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_errno_is_a_reason_and_any_other_an_error() {
        let absent = attempt::<()>(ABSENT, "no such call", || Err(Errno::NOSYS)).unwrap();
        assert_eq!(absent, Support::Unavailable("no such call"));
        let error = attempt::<()>(ABSENT, "no such call", || Err(Errno::IO)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    }

    #[test]
    fn interrupted_call_is_made_again() {
        let mut calls = 0;
        let answer = attempt(ABSENT, "", || {
            calls += 1;
            if calls < 3 { Err(Errno::INTR) } else { Ok(calls) }
        });
        assert_eq!(answer.unwrap(), Support::Available(3));
    }

    #[test]
    fn map_changes_the_value_and_keeps_the_reason() {
        assert_eq!(Support::Available(2).map(|n| n * 2).available(), Some(4));
        let missing = Support::<u8>::Unavailable("why");
        assert_eq!(missing.map(|n| n * 2), Support::Unavailable("why"));
    }
}
