//! What pages are made of, for other pages that look like the reports.

pub use crate::html::columns::{LOOKS, mark};
pub use crate::html::curves::{RateLine, rate_plot};
pub use crate::html::labels::{breaking, heading};
pub use crate::html::page::{Frame, STYLE, framed};
pub use crate::html::plot::{Scale, WIDTH, at, axis, key, label_width, level_lines, path, picture, short};
pub use crate::html::tables::{folded, list, table};
