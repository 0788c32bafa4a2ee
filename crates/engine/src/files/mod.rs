//! Properties of files: kind, identity, changes, data and holes; and locks and leases that keep other processes from
//! changing them.
//!
//! Not here: methods, and opening files as methods say (`transfer`).

mod atomic;
mod attributes;
mod exchange;
mod extended;
mod extents;
mod facts;
mod held;
mod holes;
mod identity;
mod kind;
mod name;
mod output;
mod path_text;
mod read;
mod records;
mod sync;
mod unfinished;
mod watch;
mod writable_by_others;

pub use atomic::{AtomicFile, leads_to_open_file, with_new_name};
pub use attributes::{Attributes, FileRef, Own, without_group_rights};
pub use exchange::{Exchange, NotExchanged};
pub use extended::XattrRole;
pub use extents::{
    ExtentSummary, Run, allocated_bytes, extents, own_bytes, place, places, shared_bytes, shared_layout,
};
pub use facts::{StatFacts, Time, is_sure, times};
pub use held::{Held, Lease, lock};
pub use holes::{DIGESTED_HOLE_BYTES_MAX, data_ranges, first_data};
pub(crate) use holes::{Stretch, stretches};
pub(crate) use identity::number_text;
pub use identity::{FileId, FileState, nanoseconds};
pub(crate) use kind::{
    directory_of, open_regular, open_without_waiting, require_regular, require_told_size, stat_open_regular,
};
pub use kind::{kind_of, stat_regular, with_article};
pub use name::NameInDirectory;
pub(crate) use name::with_protection;
pub use output::OutputPlace;
pub(crate) use path_text::serialize_optional_path;
pub use path_text::{PATH_BYTES, hexadecimal, serialize_path};
pub use read::{IoFailure, read_full, read_some};
pub use records::{RecordForm, RecordReader, RecordWriter, WrongRecord, record_bytes};
pub use seekless_sys::{Access, Directory, ExtendedAttributes, LeaseKind, LeaseScope, MappedBytes, SharedMappings};
pub use sync::{sync_file_system, sync_written};
pub use unfinished::make_new;
pub(crate) use unfinished::{
    UnfinishedFile, is_name_of_empty, make_for_a_moment, make_unnamed, make_with_name_for_a_moment, require_file_bytes,
};
pub use watch::{StepKind, Unwatched, Watch, WatchedStep};
#[cfg(feature = "profile")]
pub(crate) use writable_by_others::replace_own;
pub use writable_by_others::{WritableByOthers, open_of, open_own, open_own_input, read_within};
