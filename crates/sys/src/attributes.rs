//! Reading extended attributes whose number and length may change meanwhile.

use std::ffi::CStr;

use rustix::io::{Errno, Result};

use crate::types::ExtendedAttributes;

/// All attributes, sorted by name. One that goes away between the list and its value is not among them.
pub(crate) fn attributes(
    list: impl Fn(&mut [u8]) -> Result<usize>,
    get: impl Fn(&CStr, &mut [u8]) -> Result<usize>,
) -> Result<ExtendedAttributes> {
    let names = match whole(&list) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        other => other?,
    };
    let mut attributes = Vec::new();
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else {
            continue;
        };
        match whole(&|buffer: &mut [u8]| get(name, buffer)) {
            Ok(value) => attributes.push((name.to_bytes().to_vec(), value)),
            Err(error) if error == GONE => {}
            Err(error) => return Err(error),
        }
    }
    attributes.sort_unstable();
    Ok(attributes)
}

#[cfg(target_os = "linux")]
const GONE: Errno = Errno::NODATA;
#[cfg(not(target_os = "linux"))]
const GONE: Errno = Errno::NOATTR;

/// Most lists and values fit at once; one that does not is asked for again with twice the room.
fn whole(read: &dyn Fn(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 256];
    loop {
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < MOST_BYTES => buffer.resize(buffer.len() * 2, 0),
            Err(error) => return Err(error),
        }
    }
}

/// More than any system takes for a list or a value.
const MOST_BYTES: usize = 1 << 26;
