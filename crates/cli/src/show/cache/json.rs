//! The objects that programs get, one on each line.

use std::path::Path;

use seekless::cache::Resident;
use seekless_tools::cache::{FileState, Total};
use serde_json::{Map, Value, json};

use super::super::visible::insert_path;

/// A file or folder that could not be opened or listed.
pub(super) fn failed_json(path: &Path, reason: &str) -> Value {
    let mut object = Map::new();
    object.insert("kind".to_owned(), "failed".into());
    insert_path(&mut object, "path", path);
    object.insert("reason".to_owned(), reason.into());
    object.into()
}

fn resident_of(resident: &Resident) -> Option<u64> {
    match resident {
        Resident::Known { resident_bytes, .. } => Some(*resident_bytes),
        Resident::Unknown(_) => None,
    }
}

pub(super) fn file_json(file: &FileState) -> Value {
    let mut object = Map::new();
    object.insert("kind".to_owned(), "file".into());
    insert_path(&mut object, "path", &file.path);
    let (cacheable, unknown) = match file.resident {
        Resident::Known { total_bytes, .. } => (Some(total_bytes), None),
        Resident::Unknown(reason) => (None, Some(reason)),
    };
    for (name, value) in [
        ("bytes", json!(file.bytes)),
        ("cacheable_bytes", json!(cacheable)),
        (
            "resident_before_bytes",
            json!(file.before.as_ref().and_then(resident_of)),
        ),
        ("resident_bytes", json!(resident_of(&file.resident))),
        ("unknown", json!(unknown)),
    ] {
        object.insert(name.to_owned(), value);
    }
    object.into()
}

pub(super) fn total_json(total: &Total, path: Option<&Path>) -> Value {
    let mut object = Map::new();
    object.insert("kind".to_owned(), "total".into());
    match path {
        Some(path) => insert_path(&mut object, "path", path),
        None => drop(object.insert("path".to_owned(), Value::Null)),
    }
    for (name, number) in [
        ("files", total.files),
        ("bytes", total.bytes),
        ("cacheable_bytes", total.cacheable_bytes),
        ("resident_before_bytes", total.before_bytes),
        ("resident_bytes", total.resident_bytes),
        ("resident_files", total.resident_files),
        ("partial_files", total.partial_files),
        ("unknown_files", total.unknown_files),
        ("failed", total.failed),
        ("repeated", total.repeated),
        ("links", total.links),
        ("special", total.special),
        ("other_file_systems", total.other_file_systems),
    ] {
        object.insert(name.to_owned(), number.into());
    }
    object.into()
}
