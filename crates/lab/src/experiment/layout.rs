//! The layout of an experiment's files, and the memory that it allows.

use seekless::Operation;
use seekless::method::format_size;
use seekless_record::Cache;
use toml::Spanned;

use super::format::{Checked, Words, distinct, problem, size_of};
use crate::cgroup::LEAST_BYTES;
use crate::layout::Layout;

pub(super) fn layouts(operation: Operation, text: Option<&Words>) -> Checked<Vec<Layout>> {
    let Some(text) = text else {
        return Ok(vec![Layout::Dense]);
    };
    if !matches!(operation, Operation::Read | Operation::Copy | Operation::Compare) {
        return problem(
            text,
            format!("`layout` is allowed only for `read`, `copy` and `compare`, not for `{operation}`"),
        );
    }
    distinct(text, "layout", |text| match text.get_ref().parse() {
        Ok(layout) => Ok(layout),
        Err(why) => problem(text, why),
    })
}

pub(super) fn memory(caches: &[Cache], text: Option<&Spanned<String>>) -> Checked<Option<u64>> {
    let Some(text) = text else { return Ok(None) };
    if !caches.contains(&Cache::Over) {
        return problem(text, "`memory` needs the cache state `over`: add it to `cache`");
    }
    match size_of(text, "memory")? {
        bytes if bytes < LEAST_BYTES => problem(
            text,
            format!(
                "`memory` must be at least {}: less is not enough to run a program",
                format_size(LEAST_BYTES)
            ),
        ),
        bytes => Ok(Some(bytes)),
    }
}
