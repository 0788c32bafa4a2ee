//! The updates of a contest: `updates = { bytes = 4, every = 400, draw = "shuffled" }`.

use seekless_engine::Operation;
use seekless_record::{Draw, UpdatePattern};
use serde::Deserialize;
use toml::Spanned;

use super::words::{Checked, one_of, problem, refuse};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct UpdatesText {
    bytes: Option<Spanned<u64>>,
    every: Option<Spanned<u64>>,
    draw: Option<Spanned<String>>,
}

/// An integer, a hundred apart, one after the other: the sparse update of 2008.
const USUAL: UpdatePattern = UpdatePattern {
    bytes: 4,
    every_bytes: 400,
    draw: Draw::Ascending,
};

/// The largest update and the largest step, in bytes.
const BYTES_MAX: u64 = 1 << 20;
const EVERY_MAX: u64 = 1 << 40;

/// What an update changes; nothing for other operations.
pub(super) fn updates(operation: Operation, text: Option<&Spanned<UpdatesText>>) -> Checked<Option<UpdatePattern>> {
    let is_update = operation == Operation::Update;
    refuse(text, !is_update, format!("`updates` is not allowed for `{operation}`"))?;
    let Some(text) = text else {
        return Ok(is_update.then_some(USUAL));
    };
    let updates = text.get_ref();
    let within = |value: Option<&Spanned<u64>>, usual: u64, most: u64| match value {
        None => Ok(usual),
        Some(value) if (1..=most).contains(value.get_ref()) => Ok(*value.get_ref()),
        Some(value) => problem(value, format!("must be 1 to {most} bytes")),
    };
    let bytes = within(updates.bytes.as_ref(), USUAL.bytes, BYTES_MAX)?;
    let every_bytes = within(updates.every.as_ref(), USUAL.every_bytes.max(bytes), EVERY_MAX)?;
    let overlap = format!("updates of {bytes} B every {every_bytes} B overlap");
    refuse(Some(text), every_bytes < bytes, overlap)?;
    let draw = match &updates.draw {
        None => USUAL.draw,
        Some(word) => one_of(word, "draw", &Draw::ALL.map(|draw| (draw.name(), draw)))?,
    };
    Ok(Some(UpdatePattern {
        bytes,
        every_bytes,
        draw,
    }))
}
