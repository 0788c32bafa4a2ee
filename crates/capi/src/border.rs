//! What crosses the border to C: texts, memory, callbacks, results. Nearly all unsafe code of this crate is here.
//!
//! The types here wrap pointers that only a call from C can bring, so what `seekless.h` asks of the caller is their
//! invariant, and code beyond this module is safe.

use std::any::Any;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::error::{seekless_error, seekless_status};

/// A text of the caller: NULL, or NUL-terminated and unchanged during the call.
#[derive(Default)]
#[repr(transparent)]
pub struct InText(*const c_char);

impl InText {
    /// The bytes, unless it is NULL.
    fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: by the type's invariant, it is NUL-terminated and lives as long as the call that `self` belongs to.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// A path of any bytes; `name` is the argument's.
    pub fn path(&self, name: &str) -> Result<&Path, seekless_error> {
        let bytes = self.bytes().ok_or_else(|| is_null(name))?;
        Ok(Path::new(OsStr::from_bytes(bytes)))
    }

    /// Text in UTF-8, unless it is NULL.
    pub fn text(&self, name: &str) -> Result<Option<&str>, seekless_error> {
        let read = |bytes| str::from_utf8(bytes).map_err(|_| seekless_error::invalid(&format!("{name}: not UTF-8")));
        self.bytes().map(read).transpose()
    }
}

/// A text for the caller: NULL, or made by [`CString::into_raw`] and owned by whoever has this value.
#[derive(Default)]
#[repr(transparent)]
pub struct OutText(*mut c_char);

impl OutText {
    /// A copy, without zero bytes.
    pub fn of(text: impl AsRef<OsStr>) -> Self {
        let bytes = text.as_ref().as_bytes().iter().copied();
        let text = CString::new(bytes.filter(|&byte| byte != 0).collect::<Vec<u8>>());
        text.map_or_else(|_| Self::default(), |text| Self(text.into_raw()))
    }
}

impl Drop for OutText {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: by the type's invariant, it came from `into_raw`; the header tells callers to leave it as it is.
            drop(unsafe { CString::from_raw(self.0) });
        }
    }
}

/// Bytes that the caller lends, or NULL. Their number is another argument, or another field.
#[repr(transparent)]
pub struct InBytes(*const c_void);

impl InBytes {
    /// The bytes.
    ///
    /// # Safety
    /// `length` is the one that the caller passed with it.
    pub unsafe fn bytes(&self, length: usize, name: &str) -> Result<&[u8], seekless_error> {
        // SAFETY: the caller of the C function lends this many bytes, which nothing changes during the call.
        unsafe { lent(self.0.cast(), length, name) }
    }
}

/// The first of several changes that the caller lends, or NULL. Their number is another argument.
#[repr(transparent)]
pub struct InChanges(*const seekless_change);

impl InChanges {
    /// The changes.
    ///
    /// # Safety
    /// `count` is the one that the caller passed with it.
    pub unsafe fn items(&self, count: usize) -> Result<&[seekless_change], seekless_error> {
        // SAFETY: the caller of the C function lends this many changes, which nothing changes during the call.
        unsafe { lent(self.0, count, "changes") }
    }
}

/// Bytes that an update writes to an offset of a file.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct seekless_change {
    /// Where they go.
    pub offset: u64,
    /// The bytes.
    pub bytes: InBytes,
    /// How many they are.
    pub length: usize,
}

impl seekless_change {
    pub fn bytes(&self) -> Result<&[u8], seekless_error> {
        // SAFETY: the caller filled both fields of a change.
        unsafe { self.bytes.bytes(self.length, "the bytes of a change") }
    }
}

/// The items at a pointer that may be NULL if there are none.
///
/// # Safety
/// Unless it is NULL, it points to as many items, unchanged while the result is used.
unsafe fn lent<'a, T>(start: *const T, length: usize, name: &str) -> Result<&'a [T], seekless_error> {
    match length {
        0 => Ok(&[]),
        _ if start.is_null() => Err(is_null(name)),
        // SAFETY: as the caller of this function promises.
        _ => Ok(unsafe { std::slice::from_raw_parts(start, length) }),
    }
}

/// The memory that a read fills, or NULL. Its length is another argument.
#[repr(transparent)]
pub struct OutMemory(*mut c_void);

impl OutMemory {
    /// The bytes, which the caller need not have set.
    ///
    /// # Safety
    /// `length` is the one that the caller passed with it.
    pub unsafe fn bytes(&mut self, length: usize, name: &str) -> Result<&mut [MaybeUninit<u8>], seekless_error> {
        match length {
            0 => Ok(&mut []),
            _ if self.0.is_null() => Err(is_null(name)),
            // SAFETY: the caller of the C function lends this many bytes, which nothing else uses during the call.
            _ => Ok(unsafe { std::slice::from_raw_parts_mut(self.0.cast(), length) }),
        }
    }
}

/// A pointer that a callback gets back.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Context(*mut c_void);

impl Context {
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

// SAFETY: it is only handed to callbacks, and the header says that they are called by any thread.
unsafe impl Send for Context {}
// SAFETY: as above; progress may be reported by several threads at once, which the header says too.
unsafe impl Sync for Context {}

/// Gets the bytes of a read, in order, one call at a time, perhaps from another thread than the caller's. `offset` counts
/// from the start of what is read. Returns 0 to go on; any other value ends the read, and `is_stopped` is then set.
///
/// Callbacks return normally: a C++ exception that leaves one ends the process, and longjmp is undefined.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct seekless_take(
    Option<
        unsafe extern "C-unwind" fn(context: *mut c_void, offset: u64, bytes: *const c_void, length: usize) -> c_int,
    >,
);

impl seekless_take {
    pub fn with(self, context: Context) -> Result<impl FnMut(u64, &[u8]) -> ControlFlow<()> + Send, seekless_error> {
        let take = self.0.ok_or_else(|| is_null("take"))?;
        Ok(move |offset, bytes: &[u8]| {
            // SAFETY: the caller passed both for this call, and `bytes` is memory of its length.
            flow(unsafe { take(context.pointer(), offset, bytes.as_ptr().cast(), bytes.len()) })
        })
    }
}

/// Gets the progress of a call about every 16 MiB, perhaps from several threads at the same time. Returns 0 to go on; any
/// other value ends the call with `SEEKLESS_STATUS_STOPPED`. A new file is then removed, one that was overwritten holds
/// what was written until then, and an update ends as after an error.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct seekless_progress(
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, done_bytes: u64, of_bytes: u64) -> c_int>,
);

impl seekless_progress {
    pub fn with(self, context: Context) -> Option<impl Fn(u64, u64) -> ControlFlow<()> + Sync> {
        let tell = self.0?;
        Some(move |done_bytes, of_bytes| {
            // SAFETY: the caller passed both for this call.
            flow(unsafe { tell(context.pointer(), done_bytes, of_bytes) })
        })
    }
}

fn flow(answer: c_int) -> ControlFlow<()> {
    if answer == 0 {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

fn is_null(name: &str) -> seekless_error {
    seekless_error::invalid(&format!("{name} is NULL"))
}

/// Makes a call and gives the caller its result and its error, of which one is empty. A panic becomes an error.
pub fn answer<T: Default>(
    result: Option<&mut MaybeUninit<T>>,
    error: Option<&mut MaybeUninit<seekless_error>>,
    call: impl FnOnce() -> Result<T, seekless_error>,
) -> seekless_status {
    // What a call leaves behind when it panics is dropped, and no later call sees it.
    let called = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(internal(&*panic)));
    let (value, why) = match called {
        Ok(value) => (value, seekless_error::default()),
        Err(why) => (T::default(), why),
    };
    let status = why.status;
    if let Some(result) = result {
        result.write(value);
    }
    if let Some(error) = error {
        error.write(why);
    }
    status
}

fn internal(panic: &(dyn Any + Send)) -> seekless_error {
    let told = panic.downcast_ref::<String>().map(String::as_str);
    let text = told
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown");
    seekless_error::of(seekless_status::Internal, &format!("a defect in seekless: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_an_empty_result() {
        let (mut result, mut error) = (MaybeUninit::new(7_u64), MaybeUninit::uninit());
        let status = answer(Some(&mut result), Some(&mut error), || panic!("at {}", 5));
        // SAFETY: `answer` sets both.
        let (result, error) = unsafe { (result.assume_init(), error.assume_init()) };
        assert_eq!(
            (status, result, error.status),
            (seekless_status::Internal, 0, seekless_status::Internal)
        );
        // SAFETY: it was just made.
        let text = unsafe { CStr::from_ptr(error.text.0) };
        assert_eq!(text, c"a defect in seekless: at 5");
        assert_eq!(
            answer::<u64>(None, None, || panic!("without one who is told")),
            seekless_status::Internal
        );
    }

    #[test]
    fn a_text_with_a_zero_byte_is_passed_without_it() {
        let text = OutText::of("a\0b");
        // SAFETY: it was just made.
        assert_eq!(unsafe { CStr::from_ptr(text.0) }, c"ab");
    }
}
