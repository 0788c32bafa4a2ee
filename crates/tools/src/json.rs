//! Paths in JSON, which has no bytes: a path that is not UTF-8 is written a second time, as `NAME_bytes`, in hexadecimal digits.
//!
//! Not here: what is written beside them.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use seekless_engine::files::{PATH_BYTES, hexadecimal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Adds a path, or `null`, to an object.
#[must_use]
pub fn with_path(mut object: Value, name: &str, path: Option<&Path>) -> Value {
    object[name] = path.map(Path::to_string_lossy).into();
    if let Some(path) = path.filter(|path| path.to_str().is_none()) {
        object[format!("{name}_bytes")] = hexadecimal(path.as_os_str().as_bytes()).into();
    }
    object
}

/// A value as JSON in ASCII, on one line, which is safe for a terminal.
#[must_use]
pub fn json_line(value: &Value) -> String {
    ascii(value.to_string())
}

/// JSON with escapes for characters that are not ASCII, which occur only in strings.
#[must_use]
pub fn ascii(json: String) -> String {
    // Fast path: nearly all JSON is ASCII, and there may be a line for each of millions of files.
    if json.bytes().all(|byte| byte < 0x7f) {
        return json;
    }
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() && character != '\u{7f}' {
            ascii.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(ascii, "\\u{unit:04x}");
        }
    }
    ascii
}

/// Writes a value whose paths are [`path`] and [`paths`].
#[must_use]
pub fn written<T: Serialize>(value: &T) -> Value {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    each_object(&mut value, &|object| {
        let named: Vec<(String, String)> = object.iter().filter_map(bytes_in).collect();
        for (name, digits) in named {
            let path = bytes_of(&digits).unwrap_or_default();
            object.insert(name.clone(), String::from_utf8_lossy(&path).into());
            object.insert(name + "_bytes", digits.into());
        }
    });
    value
}

/// Reads what [`written`] wrote.
///
/// # Errors
/// What is missing or wrong.
pub fn read<T: DeserializeOwned>(mut value: Value) -> Result<T, String> {
    each_object(&mut value, &|object| {
        let is_bytes = |name: &&String| name.ends_with("_bytes") && object[*name].is_string();
        let named: Vec<String> = object.keys().filter(is_bytes).cloned().collect();
        for name in named {
            let digits = object.remove(&name).unwrap_or_default();
            let text = name.trim_end_matches("_bytes");
            let path = digits.as_str().and_then(bytes_of);
            let is_path = path.is_some_and(|path| object.get(text) == Some(&String::from_utf8_lossy(&path).into()));
            let bytes = Map::from_iter([(PATH_BYTES.to_owned(), digits)]);
            object.insert(text.to_owned(), if is_path { bytes.into() } else { Value::Null });
        }
    });
    serde_path_to_error::deserialize(value).map_err(|error| match error.path().iter().len() {
        0 => error.inner().to_string(),
        _ => format!("`{}`: {}", error.path(), error.inner()),
    })
}

fn bytes_in((name, value): (&String, &Value)) -> Option<(String, String)> {
    Some((name.clone(), value.get(PATH_BYTES)?.as_str()?.to_owned()))
}

fn each_object(value: &mut Value, change: &dyn Fn(&mut Map<String, Value>)) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| each_object(value, change)),
        Value::Object(object) => {
            change(object);
            object.values_mut().for_each(|value| each_object(value, change));
        }
        _ => {}
    }
}

/// Serialises a path; a path that the system cannot have is refused.
pub mod path {
    use std::path::PathBuf;

    use serde::de::{Deserialize, Deserializer, Error};
    use serde_json::Value;

    pub use seekless_engine::files::serialize_path as serialize;

    use super::{OsString, OsStringExt as _, PATH_BYTES, bytes_of};

    /// The reverse.
    ///
    /// # Errors
    /// That it is not a path.
    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<PathBuf, D::Error> {
        let bytes = match Value::deserialize(from)? {
            Value::String(text) => Some(text.into_bytes()),
            value => value.get(PATH_BYTES).and_then(Value::as_str).and_then(bytes_of),
        };
        let bytes = bytes.filter(|bytes| !bytes.is_empty() && !bytes.contains(&0));
        bytes
            .map(|bytes| OsString::from_vec(bytes).into())
            .ok_or_else(|| D::Error::custom("a path is missing or damaged"))
    }
}

/// Serialises paths as objects with the key `path`.
pub mod paths {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Named {
        #[serde(with = "super::path")]
        path: PathBuf,
    }

    /// A list of objects.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| Named { path: path.clone() }))
    }

    /// The reverse.
    ///
    /// # Errors
    /// That they are not paths.
    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        let named = Vec::<Named>::deserialize(from)?;
        Ok(named.into_iter().map(|named| named.path).collect())
    }
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
    use std::path::PathBuf;

    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Sample {
        #[serde(with = "path")]
        to: PathBuf,
        #[serde(with = "paths")]
        others: Vec<PathBuf>,
        own_bytes: u64,
    }

    proptest! {
        #[test]
        fn every_path_is_read_back_as_it_was_written(all in proptest::collection::vec("[^\0]", 1..5), bytes in proptest::collection::vec(1_u8.., 1..9)) {
            let path = PathBuf::from(OsStr::from_bytes(&bytes));
            let others = all.iter().map(PathBuf::from).chain([path.clone()]).collect();
            let sample = Sample { to: path.clone(), others, own_bytes: 7 };
            let value = written(&sample);
            prop_assert_eq!(value["to"].as_str().unwrap(), path.to_string_lossy());
            prop_assert_eq!(value.get("to_bytes").is_none(), path.to_str().is_some());
            prop_assert_eq!(read::<Sample>(value).unwrap(), sample);
        }
    }

    #[test]
    fn a_path_whose_bytes_are_others_than_its_text_is_refused() {
        let sample = |to: Value, bytes: &str| json!({"to": to, "to_bytes": bytes, "others": [], "own_bytes": 1});
        for bytes in ["6", "zz", "6162", "é"] {
            read::<Sample>(sample("x".into(), bytes)).unwrap_err();
        }
        read::<Sample>(sample("x".into(), "78")).unwrap();
        for to in [json!(null), json!(""), json!("\0"), json!(["x"])] {
            read::<Sample>(json!({"to": to, "others": [], "own_bytes": 1})).unwrap_err();
        }
    }
}
