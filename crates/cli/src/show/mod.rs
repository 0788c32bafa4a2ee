//! Terminal output: tables, bars, sentences and JSON.

mod act;
mod advice;
mod answers;
mod bench;
mod cache;
mod comparison;
mod contest;
mod curve;
mod dupes;
mod earlier_runs;
#[cfg(feature = "catalogue")]
mod elsewhere;
mod escape;
mod explain;
mod holes;
mod methods;
mod objects;
mod page;
mod progress;
mod rankings;
mod regret;
mod run;
mod runs;
mod settings;
#[cfg(feature = "sim")]
mod sim;
mod storage;
mod system;
mod table;
mod tree;
mod undo;
mod units;
mod wrap;

use anstyle::{AnsiColor, Style};

pub use act::ActReport;
pub use advice::{advice_json, directory_of, profile_json, profile_page, show_advice, show_profile};
pub use bench::BenchProgress;
pub use cache::{CacheLines, Format};
pub use comparison::show_comparison;
#[cfg(feature = "catalogue")]
pub use dupes::show_unread;
pub use dupes::{DuplicatesForm, say, show_duplicates, show_failures, show_numbered};
pub use earlier_runs::show_known;
#[cfg(feature = "catalogue")]
pub use elsewhere::show_elsewhere;
pub use escape::{json_line, json_text, reason_behind, shortened, visible_lines, visible_path, with_path};
pub use explain::{explained, planned_batches, tell_scan, tell_why};
#[cfg(all(feature = "sim", target_os = "linux"))]
pub use holes::level;
pub use holes::{HoleLines, HolesPicture, HolesSum, show_punched};
pub use methods::{
    list_method, list_methods, method_json, methods_json, methods_page, summarize_methods, tried_methods,
};
pub use objects::JsonForm;
pub use page::{Page, other_file_systems};
pub use progress::{Amount, Cleared, PROGRESS, showing, stderr, stdout};
pub use rankings::show_rankings;
pub use regret::show_regrets;
pub use run::{RunParts, is_simulated, next_command, show_run};
pub use runs::{held_bytes, list_runs, runs_json, too_large};
pub use settings::{show_settings, storage_settings};
#[cfg(feature = "sim")]
pub use sim::{list_models, models_json, show_model, show_replays};
pub use storage::{Described, FoundStorage, StorageBehind, show_storage, storage_json};
pub use tree::{Differences, Form, show_same_size};
pub use undo::{UndoneFiles, journal_json, list_journals, name_of};
pub use units::{counted, files, seconds};
pub use wrap::Width;

/// No style.
pub const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default();
