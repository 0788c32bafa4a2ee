//! The storage of a path, as text and as JSON.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;

use seekless_engine::{BlockDevice, BlockLayer, DeviceMount, DeviceUse, Feature, StorageFacts};
use seekless_results::{bytes, rotation_claim, visible};
use seekless_sys::FileSystemTrait;
use seekless_tools::json::written;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::escape::{visible_path, with_path};
use super::methods::mark;
use super::page::Page;
use super::wrap::{columns_of, wrapped};
use super::{BOLD, DIM, PLAIN, WARNING};

/// What a path names.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum FoundStorage {
    /// A file or directory on a storage.
    Storage(Box<Described>),
    /// A block device, and its users.
    Device(Box<DeviceUse>),
    /// The path could not be described.
    Failed {
        /// Why not.
        reason: String,
    },
}

/// A description of a storage.
#[derive(Serialize)]
pub struct Described {
    /// What the storage reports about itself.
    #[serde(flatten)]
    pub facts: StorageFacts,
    /// The storages below an overlay or FUSE, the nearest first.
    #[serde(rename = "takes_from")]
    pub behind: Vec<StorageBehind>,
    /// The alignment of direct I/O in bytes: memory, offsets.
    #[serde(rename = "direct_alignment_bytes")]
    pub alignment: Option<(u32, u32)>,
    /// The tested features, or why they could not be tested.
    #[serde(serialize_with = "serialize_features")]
    pub features: Result<Vec<Feature>, String>,
}

/// A storage from which another takes its data.
#[derive(Serialize)]
pub struct StorageBehind {
    /// The path of the data on it.
    #[serde(with = "seekless_tools::json::path")]
    pub path: PathBuf,
    /// What it reports about itself.
    #[serde(flatten)]
    pub facts: StorageFacts,
}

/// The column of the text after a label.
const TEXT_AT: usize = 15;

/// Shows all of them, except those that failed.
pub fn show_storage(page: &mut Page<'_>, all: &[(PathBuf, FoundStorage)]) -> io::Result<()> {
    let is_shown = |found: &FoundStorage| !matches!(found, FoundStorage::Failed { .. });
    let shown = all.iter().filter(|(_, found)| is_shown(found));
    for (index, (path, found)) in shown.enumerate() {
        if index > 0 {
            writeln!(page)?;
        }
        writeln!(page, "{BOLD}{}{BOLD:#}", visible_path(path))?;
        match found {
            FoundStorage::Storage(described) => {
                show_facts(page, described)?;
                show_features(page, &described.features)?;
            }
            FoundStorage::Device(device) => {
                show_device(page, &device.device)?;
                show_uses(page, device)?;
            }
            FoundStorage::Failed { .. } => {}
        }
    }
    Ok(())
}

/// Writes a label and a text.
fn label(page: &mut Page<'_>, word: &str, text: &str) -> io::Result<()> {
    page.labelled(DIM, &format!("  {word:<13}"), TEXT_AT, text)
}

fn show_facts(page: &mut Page<'_>, described: &Described) -> io::Result<()> {
    let facts = &described.facts;
    label(page, "File system", &file_system_words(facts))?;
    if let Some(options) = &facts.mount_options {
        // Spaces after the commas, so that the list can be wrapped.
        label(page, "Options", &visible(options).replace(',', ", "))?;
    }
    let (free, total) = (bytes(facts.free_bytes), bytes(facts.total_bytes));
    let space = format!("{free} free of {total}, in blocks of {} B", facts.block_bytes);
    label(page, "Space", &space)?;
    let alignment = match described.alignment {
        Some((memory, offset)) => format!("memory aligned to {memory} B, offsets and lengths to {offset} B"),
        None => "the file system does not report the alignment".to_owned(),
    };
    label(page, "Direct I/O", &alignment)?;
    match &facts.device {
        Some(device) => show_device(page, device)?,
        None => label(page, "Device", no_device(facts))?,
    }
    for StorageBehind { path, facts } in &described.behind {
        let text = format!("{}: {}", visible_path(path), file_system_words(facts));
        label(page, "Data from", &text)?;
        if let Some(device) = &facts.device {
            show_device(page, device)?;
        }
    }
    Ok(())
}

fn file_system_words(facts: &StorageFacts) -> String {
    let (point, source) = (&facts.mount_point, &facts.mount_source);
    let words = [
        Some(facts.file_system.clone()),
        point.as_ref().map(|point| format!(" on {}", visible_path(point))),
        source.as_ref().map(|source| format!(", from {}", visible_path(source))),
        facts.read_only.then(|| ", read-only".to_owned()),
        facts.is_network.then(|| ", over a network".to_owned()),
    ];
    words.into_iter().flatten().collect()
}

fn no_device(facts: &StorageFacts) -> &'static str {
    let has = |property: FileSystemTrait| property.is_of(&facts.file_system);
    if has(FileSystemTrait::InMemory) {
        "none: files are in memory"
    } else if has(FileSystemTrait::Overlay) {
        "none of its own: it shows files of other file systems"
    } else if has(FileSystemTrait::ServedByProgram) {
        "unknown: a program serves the files"
    } else if facts.is_network {
        "on another machine"
    } else {
        "unknown"
    }
}

/// Shows the device and those below it as a tree, then the queue and sectors of the device itself.
fn show_device(page: &mut Page<'_>, device: &BlockDevice) -> io::Result<()> {
    label(page, "Device", &device_words(device))?;
    show_tree(page, &device.below, &device_words, |device| &device.below, "")?;
    let lines = [queue_words(device), block_words(device)];
    let mut lines = lines.iter().filter(|line| !line.is_empty());
    lines.try_for_each(|line| page.labelled(PLAIN, "", TEXT_AT, line))
}

/// Shows the users of a device: mounted file systems, and devices made of it.
fn show_uses(page: &mut Page<'_>, device: &DeviceUse) -> io::Result<()> {
    let text = match mounts_words(&device.mounts) {
        none if none.is_empty() && device.above.is_empty() => "nothing is mounted".to_owned(),
        none if none.is_empty() => "not mounted itself".to_owned(),
        mounts => mounts,
    };
    label(page, "On it", &text)?;
    let words = |used: &DeviceUse| match (device_words(&used.device), mounts_words(&used.mounts)) {
        (device, mounts) if mounts.is_empty() => device,
        (device, mounts) => format!("{device}: {mounts}"),
    };
    show_tree(page, &device.above, &words, |used| &used.above, "")
}

fn mounts_words(mounts: &[DeviceMount]) -> String {
    let words = mounts.iter().map(|mount| match &mount.point {
        Some(point) => format!("{} on {}", mount.file_system, visible_path(point)),
        None => format!("{} in use", mount.file_system),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Writes a tree, each item on a line with its branch before it.
fn show_tree<T>(
    page: &mut Page<'_>,
    items: &[T],
    words: &dyn Fn(&T) -> String,
    inner: fn(&T) -> &[T],
    lines: &str,
) -> io::Result<()> {
    for (index, item) in items.iter().enumerate() {
        let is_last = index + 1 == items.len();
        let [branch, under] = if is_last {
            ["└─ ", "   "]
        } else {
            ["├─ ", "│  "]
        };
        let branch = format!("{lines}{branch}");
        let text = wrapped(TEXT_AT + columns_of(&branch), &words(item), page.width());
        writeln!(page, "{:TEXT_AT$}{DIM}{branch}{DIM:#}{text}", "")?;
        show_tree(page, inner(item), words, inner, &format!("{lines}{under}"))?;
    }
    Ok(())
}

fn device_words(device: &BlockDevice) -> String {
    let mut name = format!("{}: {}", visible(&device.name), device.kind.name());
    if let Some(label) = &device.label {
        let _ = write!(name, " {}", visible(label));
    }
    if let Some(file) = &device.backing_file {
        let _ = write!(name, " on {}", visible_path(file));
    }
    let mut words = vec![name];
    words.extend(device.size_bytes.map(bytes));
    // Only for disks: partitions and volumes repeat what their disk reports.
    if device.below.is_empty() {
        words.extend(device.model.as_deref().map(|model| visible(model).into_owned()));
        let known = match device.is_virtual {
            _ if device.kind == BlockLayer::Simulated => None,
            Some(true) => Some("virtual"),
            _ => Some("not known to be virtual"),
        };
        words.extend(known.map(str::to_owned));
        words.extend(device.claims_rotational.map(rotation_claim));
    }
    words.join(", ")
}

fn queue_words(device: &BlockDevice) -> String {
    let scheduler = device.scheduler.as_deref().map(visible);
    let words = [
        scheduler.map(|name| format!("scheduler {name}")),
        device.read_ahead_kib.map(|kib| format!("read-ahead {kib} KiB")),
        device.max_request_kib.map(|kib| format!("requests up to {kib} KiB")),
        device.write_cache.as_deref().map(|cache| visible(cache).into_owned()),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn block_words(device: &BlockDevice) -> String {
    match (device.logical_block_bytes, device.physical_block_bytes) {
        (Some(logical), Some(physical)) if logical != physical => {
            format!("{logical} B logical, {physical} B physical sectors")
        }
        (Some(logical), _) => format!("sectors of {logical} B"),
        _ => String::new(),
    }
}

fn show_features(page: &mut Page<'_>, features: &Result<Vec<Feature>, String>) -> io::Result<()> {
    let features = match features {
        Ok(features) => features,
        Err(reason) => {
            let text = wrapped(TEXT_AT, &format!("unknown: {reason}"), page.width());
            return writeln!(page, "{DIM}  {:<13}{DIM:#}{WARNING}{text}{WARNING:#}", "Features");
        }
    };
    let how = "tested with a temporary file (removed)";
    writeln!(page, "{DIM}  {:<13}{how}{DIM:#}", "Features")?;
    let names = features.iter().map(|feature| columns_of(feature.name));
    let longest = names.max().unwrap_or(0);
    for feature in features {
        let (style, mark) = mark(&feature.availability);
        let text = match (feature.availability.reason(), feature.smallest_hole_bytes) {
            (Some(reason), _) => format!("not available here: {}", visible(reason)),
            (None, Some(bytes)) => format!("{}; the smallest hole that frees space has {bytes} B", feature.about),
            (None, None) => feature.about.to_owned(),
        };
        let text = wrapped(4 + 2 + longest + 2, &text, page.width());
        writeln!(page, "    {style}{mark}{style:#} {:<longest$}  {text}", feature.name)?;
    }
    Ok(())
}

/// The same as JSON, with those that failed.
pub fn storage_json(all: &[(PathBuf, FoundStorage)]) -> Value {
    let object = |(path, found): &(PathBuf, FoundStorage)| with_path(written(found), "path", Some(path));
    all.iter().map(object).collect()
}

/// Serialises all features; if they could not be tested, each with the reason.
fn serialize_features<S: Serializer>(features: &Result<Vec<Feature>, String>, to: S) -> Result<S::Ok, S::Error> {
    let object = |name: &str, about: &str, state: &str, reason: Option<&str>, smallest_hole: Option<u64>| {
        let mut object = json!({"name": name, "about": about, "state": state, "reason": reason});
        if name == "punch" {
            object["smallest_hole_bytes"] = json!(smallest_hole);
        }
        object
    };
    let tested = |feature: &Feature| {
        let reason = feature.availability.reason();
        let state = if reason.is_none() { "available" } else { "unavailable" };
        object(feature.name, feature.about, state, reason, feature.smallest_hole_bytes)
    };
    match features {
        Ok(features) => to.collect_seq(features.iter().map(tested)),
        Err(reason) => {
            to.collect_seq(Feature::all().map(|(name, about)| object(name, about, "unknown", Some(reason), None)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wrap::Width;
    use super::*;

    fn used(name: &str, above: Vec<DeviceUse>) -> DeviceUse {
        let mut used = DeviceUse::default();
        used.device.name = name.to_owned();
        // A device that lies on others leaves the rest to them.
        used.device.below = vec![BlockDevice::default()];
        used.above = above;
        used
    }

    #[test]
    fn of_a_simulated_disk_it_is_not_said_that_it_is_not_known_to_be_virtual() {
        let mut disk = BlockDevice::default();
        disk.name = "simulated-null".to_owned();
        disk.kind = BlockLayer::Simulated;
        disk.label = Some("null".to_owned());
        assert_eq!(device_words(&disk), "simulated-null: simulated null");
    }

    #[test]
    fn what_lies_on_a_device_is_a_tree() {
        let volumes = vec![used("dm-0", Vec::new()), used("dm-1\u{1b}", Vec::new())];
        let disk = used("sda", vec![used("sda1", Vec::new()), used("sda2", volumes)]);
        let mut out = Vec::new();
        show_uses(&mut Page::new(&mut out, Width::default()), &disk).unwrap();
        let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap();
        let expected = "  On it        not mounted itself
               ├─ sda1: disk
               └─ sda2: disk
                  ├─ dm-0: disk
                  └─ dm-1\\u{1b}: disk
";
        assert_eq!(text, expected);
    }
}
