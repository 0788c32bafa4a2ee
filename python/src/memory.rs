//! Memory and files of Python: the unsafe code of this crate.
#![allow(unsafe_code, reason = "memory of another language comes in as pointers")]

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::{ptr, slice};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyImportError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A buffer that bytes are read into.
pub struct Writable(PyUntypedBuffer);

impl Writable {
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err(
                "the buffer is read-only; give one that can be written to",
            ));
        }
        contiguous(buffer).map(Self)
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        if self.0.len_bytes() == 0 {
            return &mut [];
        }
        // SAFETY: the exporter keeps this memory where it is until the buffer is released, which is after this borrow.
        // It is contiguous and writable. Nothing in Rust has another reference to it; that other threads of Python leave
        // it alone meanwhile is what every user of `readinto` promises.
        unsafe { slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

/// A buffer that bytes are written from.
pub struct Readable(PyUntypedBuffer);

impl Readable {
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        contiguous(PyUntypedBuffer::get(object)?).map(Self)
    }

    pub fn bytes(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the exporter keeps this memory where it is until the buffer is released, which is after this borrow.
        // That other threads of Python do not change it meanwhile is what every user of `write` promises.
        unsafe { slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

fn contiguous(buffer: PyUntypedBuffer) -> PyResult<PyUntypedBuffer> {
    if buffer.is_c_contiguous() {
        return Ok(buffer);
    }
    Err(PyBufferError::new_err(
        "the buffer has gaps; give one that is contiguous in C order",
    ))
}

/// A new `bytes` that nothing but this has seen.
pub struct Filled<'py>(Bound<'py, PyBytes>);

impl<'py> Filled<'py> {
    /// Of this length; `MemoryError` if there is no memory.
    pub fn new(py: Python<'py>, length: usize) -> PyResult<Self> {
        let length = ffi::Py_ssize_t::try_from(length)?;
        // SAFETY: the GIL is held. Without a source, the call returns a new object with room for the length, or null with
        // an exception set, which is what the conversion expects.
        let object = unsafe {
            let object = ffi::PyBytes_FromStringAndSize(ptr::null(), length);
            Bound::from_owned_ptr_or_err(py, object)?
        };
        Ok(Self(object.cast_into()?))
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        let length = self.0.as_bytes().len();
        // SAFETY: only this has the object, so nobody reads its bytes, nor has their hash. The allocator's memory is
        // never seen before it is written to: it is cut to what was read.
        unsafe { slice::from_raw_parts_mut(ffi::PyBytes_AsString(self.0.as_ptr()).cast(), length) }
    }

    /// The object, or a shorter one, if the file had fewer bytes.
    pub fn cut(self, py: Python<'py>, length: usize) -> Bound<'py, PyBytes> {
        let all = self.0.as_bytes();
        if length == all.len() {
            return self.0;
        }
        PyBytes::new(py, &all[..length])
    }
}

/// Fails in a subinterpreter: exception types and other state of this library are those of one interpreter.
pub fn require_main_interpreter() -> PyResult<()> {
    // SAFETY: the GIL is held while a module is imported.
    if unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) } == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "seekless cannot be used in a subinterpreter; import it in the main one, or start a process",
    ))
}

/// The file of a descriptor of Python's, duplicated, so that closing it meanwhile does no harm.
pub fn open_file(descriptor: i32) -> PyResult<File> {
    if descriptor < 0 {
        return Err(crate::error::wrong("the file is closed"));
    }
    // SAFETY: it is borrowed for this call only, and the caller's file object keeps it open that long.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(borrowed.try_clone_to_owned()?.into())
}
