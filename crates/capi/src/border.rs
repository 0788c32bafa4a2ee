//! What crosses the border to C: texts, memory, callbacks. All unsafe code of this crate is here, and where an argument is
//! joined with its length.
//!
//! The types here wrap pointers that only a call from C can bring, so what `seekless.h` asks of the caller is their
//! invariant, and other modules are safe.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A text of the caller: NULL, or NUL-terminated and unchanged during the call.
#[derive(Default)]
#[repr(transparent)]
pub struct InText(*const c_char);

impl InText {
    fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: by the type's invariant, it is NUL-terminated and lives as long as the call that `self` belongs to.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// A path of any bytes, which is not NULL.
    pub fn path(&self) -> Result<&Path, String> {
        let bytes = self.bytes().ok_or("a path is NULL")?;
        Ok(Path::new(OsStr::from_bytes(bytes)))
    }

    /// Text in UTF-8, unless it is NULL.
    pub fn text(&self) -> Result<Option<&str>, String> {
        let text = self.bytes().map(str::from_utf8).transpose();
        text.map_err(|_| "a method is not UTF-8".to_owned())
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
        Self(text.unwrap_or_default().into_raw())
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

/// The first of several items that the caller lends, or NULL. Their number is another argument.
#[repr(transparent)]
pub struct Lent<T>(*const T);

pub type InBytes = Lent<u8>;
pub type InChanges = Lent<seekless_change>;

impl<T> Lent<T> {
    /// The items.
    ///
    /// # Safety
    /// `count` is the one that the caller passed with it.
    pub unsafe fn items(&self, count: usize) -> Result<&[T], String> {
        match count {
            0 => Ok(&[]),
            _ if self.0.is_null() => Err("the bytes or changes are NULL".to_owned()),
            _ if !fits::<T>(count) => Err(format!("{count} items are more than memory can hold")),
            // SAFETY: the caller of the C function lends this many items, which nothing changes during the call.
            _ => Ok(unsafe { std::slice::from_raw_parts(self.0, count) }),
        }
    }
}

/// Whether a slice may have this many items: a length is often a negative number that became a `size_t`.
fn fits<T>(count: usize) -> bool {
    count <= isize::MAX as usize / size_of::<T>()
}

/// Bytes that an update writes to an offset of a file.
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
    pub fn bytes(&self) -> Result<&[u8], String> {
        // SAFETY: the caller filled both fields of a change.
        unsafe { self.bytes.items(self.length) }
    }
}

/// The memory that a read fills, or NULL. Its length is another argument.
#[repr(transparent)]
pub struct OutMemory(*mut u8);

impl OutMemory {
    /// The bytes. The caller need not have set them: they are memory of another language, which nothing here looks at before
    /// it is filled.
    ///
    /// # Safety
    /// `length` is the one that the caller passed with it.
    pub unsafe fn bytes(&mut self, length: usize) -> Result<&mut [u8], String> {
        match length {
            0 => Ok(&mut []),
            _ if self.0.is_null() => Err("the buffer is NULL".to_owned()),
            _ if !fits::<u8>(length) => Err(format!("{length} bytes are more than memory can hold")),
            // SAFETY: the caller of the C function lends this many bytes, which nothing else uses during the call.
            _ => Ok(unsafe { std::slice::from_raw_parts_mut(self.0, length) }),
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
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct seekless_take(
    Option<
        unsafe extern "C-unwind" fn(context: *mut c_void, offset: u64, bytes: *const c_void, length: usize) -> c_int,
    >,
);

impl seekless_take {
    pub fn with(self, context: Context) -> Result<impl FnMut(u64, &[u8]) -> ControlFlow<()> + Send, String> {
        let take = self.0.ok_or("the callback is NULL")?;
        Ok(move |offset, bytes: &[u8]| {
            // SAFETY: the caller passed both for this call, and `bytes` is memory of its length.
            flow(unsafe { take(context.pointer(), offset, bytes.as_ptr().cast(), bytes.len()) })
        })
    }
}

/// Gets the progress of a call about every 16 MiB, perhaps from several threads at the same time. Returns 0 to go on; any
/// other value ends the call with `SEEKLESS_STATUS_STOPPED`. A new file is then removed, one that was overwritten holds
/// what was written until then, and an update ends as after an error.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_a_zero_byte_is_passed_without_it() {
        let text = OutText::of("a\0b");
        // SAFETY: it was just made.
        assert_eq!(unsafe { CStr::from_ptr(text.0) }, c"ab");
    }
}
