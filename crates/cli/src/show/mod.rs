//! Words and pictures: tables, bars and pages from what the libraries know.

mod methods;
mod progress;
mod run;
mod units;

pub use methods::{list_methods, methods_json, methods_page};
pub use progress::Progress;
pub use run::show_run;
