//! Files that are listed both in an overlay and in one of its layers. They are names of one file, although `st_dev` differs, and,
//! after a copy-up, `st_ino`.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType};
use seekless_engine::StorageFacts;
use seekless_engine::files::FileId;

use crate::walk::{Files, StatFacts};

/// A mounted overlay.
struct Overlay {
    device: u64,
    point: PathBuf,
    /// The uppermost first.
    layers: Vec<PathBuf>,
}

impl Overlay {
    fn of(directory: &Path, device: u64) -> Option<Self> {
        let facts = StorageFacts::of(directory).ok()?;
        let options = facts.mount_options?;
        let values = |name: &'static str| options.split(',').filter_map(move |option| option.strip_prefix(name));
        let lower = values("lowerdir=").flat_map(|layers| layers.split(':'));
        let layers = values("upperdir=").chain(lower).chain(values("lowerdir+="));
        Some(Self {
            device,
            point: facts.mount_point?,
            layers: layers.map(PathBuf::from).filter(|layer| layer.is_absolute()).collect(),
        })
    }
}

/// The layer's file for each file in an overlay; looked up only if a file on another device has the same size and times.
pub(super) fn below_overlays(files: &Files) -> HashMap<u32, FileId> {
    let mut found = HashMap::new();
    let device = |number: u32| files.get(number).device;
    let is_one = |numbers: &[u32]| numbers.iter().all(|number| device(*number) == device(numbers[0]));
    if !files.has_overlay() {
        return found;
    }
    let mut numbers: Vec<u32> = (0..files.len()).collect();
    if is_one(&numbers) {
        return found;
    }
    // An overlay shows the size and times of the file in the layer.
    let version = |number: u32| files.get(number).version();
    numbers.sort_unstable_by_key(|number| version(*number));
    let mut overlays = Vec::new();
    for alike in numbers.chunk_by(|one, other| version(*one) == version(*other)) {
        if !is_one(alike) {
            for number in alike.iter().filter(|number| files.system(**number).is_overlay) {
                found.extend(below(files, *number, &mut overlays).map(|id| (*number, id)));
            }
        }
    }
    found
}

/// The file in a layer, if the layers can be reached by the paths that they were mounted from.
fn below(files: &Files, number: u32, overlays: &mut Vec<Overlay>) -> Option<FileId> {
    let handles = files.directory(number).handles().ok()?;
    let [directory] = handles.borrowed();
    let directory = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).ok()?;
    // The name of a file that was given as a path is that path.
    let path = directory.join(OsStr::from_bytes(files.name(number)));
    let directory = path.parent()?;
    let device = fs::metadata(directory).ok()?.dev();
    let holds = |overlay: &&Overlay| overlay.device == device && path.starts_with(&overlay.point);
    if overlays.iter().find(holds).is_none() {
        overlays.push(Overlay::of(directory, device)?);
    }
    let overlay = overlays.iter().find(holds)?;
    let name = path.strip_prefix(&overlay.point).ok()?;
    let in_layer = |layer: &PathBuf| {
        let path = CString::new(layer.join(name).into_os_string().into_encoded_bytes()).ok()?;
        StatFacts::at(CWD, &path).ok()
    };
    // A name in a layer hides the same name in lower layers.
    let shown = overlay.layers.iter().find_map(in_layer)?;
    let is_same = shown.kind == FileType::RegularFile && shown.version() == files.get(number).version();
    is_same.then(|| shown.id())
}
