//! Paths in JSON, which has no bytes.
//!
//! Not here: what is written beside them.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Adds a path, or `null`, to an object. A path that is not UTF-8 is added a second time, as `NAME_bytes`, in
/// hexadecimal digits.
#[must_use]
pub fn with_path(mut object: Value, name: &str, path: Option<&Path>) -> Value {
    object[name] = path.map(Path::to_string_lossy).into();
    if let Some(path) = path.filter(|path| path.to_str().is_none()) {
        object[format!("{name}_bytes")] = digits(path.as_os_str().as_bytes()).into();
    }
    object
}

/// The path that [`with_path`] added to an object; `None` without one, and for one that it did not write.
#[must_use]
pub fn path_in(object: &Value, name: &str) -> Option<PathBuf> {
    let text = object.get(name)?.as_str()?;
    match object.get(format!("{name}_bytes")) {
        None => Some(text.into()),
        Some(bytes) => {
            let path: PathBuf = OsString::from_vec(bytes_of(bytes.as_str()?)?).into();
            (path.to_string_lossy() == text).then_some(path)
        }
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn digits(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// The bytes of hexadecimal digits.
pub(crate) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let [high, low] = pair else { return None };
        let value = |digit: u8| char::from(digit).to_digit(16);
        u8::try_from(value(*high)? << 4 | value(*low)?).ok()
    };
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn every_path_is_read_back_as_it_was_written(bytes: Vec<u8>) {
            let path = Path::new(OsStr::from_bytes(&bytes));
            let object = with_path(json!({}), "path", Some(path));
            prop_assert_eq!(path_in(&object, "path").unwrap(), path);
        }
    }

    #[test]
    fn a_path_whose_bytes_are_others_than_its_text_is_refused() {
        for bytes in ["6", "zz", "6162", "é"] {
            assert_eq!(path_in(&json!({"path": "x", "path_bytes": bytes}), "path"), None);
        }
        assert_eq!(path_in(&json!({"path": null}), "path"), None);
    }
}
