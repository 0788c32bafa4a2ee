//! A document as tests walk it.

use serde_json::Value;

/// A run with every field filled.
pub(crate) const FULL: &str = include_str!("../../../record/testdata/full-run.json");

/// The places of all texts.
pub(super) fn string_places(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::String(_) => found.push(at.to_owned()),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(item, &format!("{at}/{index}"), found);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    walk(
                        field,
                        &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")),
                        found,
                    );
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}
