//! JSON objects of a command: in one document with a summary, or one per line.

use std::io::{self, Write};

use serde_json::Value;

use super::escape::json_line;

/// The form of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonForm {
    /// `{"results": [...], "summary": {...}}`, or another name of the list
    Document,
    /// One object per line, the summary last.
    Lines,
}

/// Writes objects as they come, so that memory does not grow with their number.
#[derive(Debug)]
pub struct Objects {
    /// `None` if the output is not JSON: then nothing is written.
    form: Option<JsonForm>,
    /// The name of the list in a document.
    list: &'static str,
    has_any: bool,
}

impl Objects {
    /// No object is written yet.
    pub fn new(form: Option<JsonForm>, list: &'static str) -> Self {
        Self {
            form,
            list,
            has_any: false,
        }
    }

    /// Whether the output is JSON.
    pub fn are_wanted(&self) -> bool {
        self.form.is_some()
    }

    /// Writes one object.
    pub fn write(&mut self, out: &mut dyn Write, object: &Value) -> io::Result<()> {
        let is_first = !std::mem::replace(&mut self.has_any, true);
        match self.form {
            None => Ok(()),
            Some(JsonForm::Lines) => writeln!(out, "{}", json_line(object)),
            Some(JsonForm::Document) if is_first => write!(out, "{{\"{}\": [\n{}", self.list, json_line(object)),
            Some(JsonForm::Document) => write!(out, ",\n{}", json_line(object)),
        }
    }

    /// Writes the summary, which comes last.
    pub fn finish(&self, out: &mut dyn Write, summary: &Value) -> io::Result<()> {
        let summary = json_line(summary);
        match self.form {
            None => Ok(()),
            Some(JsonForm::Lines) => writeln!(out, "{summary}"),
            Some(JsonForm::Document) if self.has_any => writeln!(out, "\n],\n\"summary\": {summary}}}"),
            Some(JsonForm::Document) => writeln!(out, "{{\"{}\": [],\n\"summary\": {summary}}}", self.list),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(form: JsonForm, objects: &[Value]) -> String {
        let mut out = Vec::new();
        let mut list = Objects::new(Some(form), "results");
        for object in objects {
            list.write(&mut out, object).unwrap();
        }
        list.finish(&mut out, &json!({"kind": "summary"})).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn any_number_of_objects_is_one_document_or_as_many_lines_and_a_summary() {
        let all = [json!({"path": "a\n\u{9b}"}), json!({}), json!({"bytes": 1})];
        for count in 0..=all.len() {
            let objects = &all[..count];
            let document: Value = serde_json::from_str(&written(JsonForm::Document, objects)).unwrap();
            assert_eq!(document, json!({"results": objects, "summary": {"kind": "summary"}}));
            let lines = written(JsonForm::Lines, objects);
            let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!((&lines[..count], &lines[count]), (objects, &json!({"kind": "summary"})));
        }
    }
}
