//! Read-ahead windows that killed runs left changed: put back before anything is looked at, and told.

use std::io::Write;

use seekless_lab::read_ahead::{LeftWindow, Now, put_back_left};

use crate::show::visible_lines;

/// Puts them back, and says so on standard error.
pub fn put_back() {
    for left in put_back_left() {
        let _ = writeln!(anstream::stderr(), "seekless: {}", visible_lines(&sentence(&left)));
    }
}

fn sentence(left: &LeftWindow) -> String {
    let LeftWindow {
        device,
        set_kib,
        before_kib,
        now,
    } = left;
    match now {
        Now::PutBack => {
            format!("{device}: a killed run left the read-ahead window at {set_kib} KiB; it is {before_kib} KiB again")
        }
        Now::NotAllowed => format!(
            "{device}: a killed run left the read-ahead window at {set_kib} KiB; only root can set it to {before_kib} KiB again\n\
             hint: run `seekless storage` as root"
        ),
        Now::Failed(why) => format!(
            "{device}: a killed run left the read-ahead window at {set_kib} KiB; cannot set it to {before_kib} KiB: {why}"
        ),
    }
}
