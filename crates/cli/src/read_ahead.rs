//! Restores the read-ahead windows that killed runs left changed, before anything is examined, and reports them.

use std::io::Write;
use std::path::PathBuf;

use seekless::StorageFacts;
use seekless_lab::read_ahead::{LeftWindow, WindowOutcome, device_name, put_back_left};

use crate::show::{stderr, visible_lines};

/// Restores read-ahead windows. Reports those of the devices of the files and directories in `told` on standard error.
pub fn put_back<'a>(told: impl IntoIterator<Item = &'a PathBuf>) {
    let mut left = put_back_left();
    if left.is_empty() {
        return;
    }
    // The command itself reports paths that it cannot stat.
    let facts = told.into_iter().filter_map(|path| StorageFacts::of(path).ok());
    let devices: Vec<_> = facts.filter_map(|facts| device_name(&facts)).collect();
    left.retain(|left| devices.iter().any(|device| *device == *left.device));
    for left in left {
        let _ = writeln!(stderr(), "seekless: {}", visible_lines(&sentence(&left)));
    }
}

fn sentence(left: &LeftWindow) -> String {
    let before_kib = left.before_kib;
    let (device, set_kib, now) = (&left.device, left.set_kib, &left.now);
    let left = format!("{device}: a killed run left the read-ahead window at {set_kib} KiB");
    match now {
        WindowOutcome::PutBack => format!("{left}; it is {before_kib} KiB again"),
        WindowOutcome::NotAllowed => {
            format!("{left}; only root can set it to {before_kib} KiB again\nhint: run `seekless storage` as root")
        }
        WindowOutcome::Failed(why) => format!("{left}; cannot set it to {before_kib} KiB: {why}"),
    }
}
