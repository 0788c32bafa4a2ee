//! What lies behind a path: for people, and for programs.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use seekless::{Availability, BlockDevice, Feature, StorageFacts};
use seekless_results::{bytes, visible};
use serde_json::{Map, Value, json};

use super::visible::{insert_path, visible_path};
use super::width::{Width, columns_of, wrapped};
use super::{BOLD, DIM, GOOD, WARNING};

/// A path, and what was found out about its storage.
pub struct Described {
    /// As it was given.
    pub path: PathBuf,
    /// What the storage says of itself.
    pub facts: StorageFacts,
    /// The storages that it takes its data from, the nearest first, each with the path that leads there.
    pub behind: Vec<(PathBuf, StorageFacts)>,
    /// How direct I/O must be aligned, in bytes: memory, offsets.
    pub alignment: Option<(u32, u32)>,
    /// What was tried, or why nothing could be.
    pub features: Result<Vec<Feature>, String>,
}

/// How far what stands behind a label is set in.
const TEXT_AT: usize = 15;

/// Shows the storages one below the other.
pub fn show_storage(out: &mut dyn Write, all: &[Described], width: Width) -> std::io::Result<()> {
    for (index, described) in all.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{BOLD}{}{BOLD:#}", visible_path(&described.path))?;
        show_facts(out, described, width)?;
        show_features(out, &described.features, width)?;
    }
    Ok(())
}

fn show_facts(out: &mut dyn Write, described: &Described, width: Width) -> std::io::Result<()> {
    let facts = &described.facts;
    let mut label = |word: &str, text: &str| {
        let word = format!("  {word:<width$}", width = TEXT_AT - 2);
        writeln!(out, "{DIM}{word}{DIM:#}{}", wrapped(TEXT_AT, text, width))
    };
    label("File system", &file_system_words(facts))?;
    if let Some(options) = &facts.mount_options {
        // Commas are where such a list may be broken.
        label("Options", &visible(options).replace(',', ", "))?;
    }
    let space = format!(
        "{} free of {}, in blocks of {} B",
        bytes(facts.free_bytes as f64),
        bytes(facts.total_bytes as f64),
        facts.block_bytes
    );
    label("Space", &space)?;
    let alignment = match described.alignment {
        Some((memory, offset)) => format!("memory aligned to {memory} B, offsets and lengths to {offset} B"),
        None => "the file system does not say how it must be aligned".to_owned(),
    };
    label("Direct I/O", &alignment)?;
    match &facts.device {
        Some(device) => show_device(out, device, width)?,
        None => label("Device", no_device(facts))?,
    }
    for (path, facts) in &described.behind {
        let text = format!("{}: {}", visible_path(path), file_system_words(facts));
        writeln!(
            out,
            "{DIM}  {:<13}{DIM:#}{}",
            "Takes from",
            wrapped(TEXT_AT, &text, width)
        )?;
        if let Some(device) = &facts.device {
            show_device(out, device, width)?;
        }
    }
    Ok(())
}

fn file_system_words(facts: &StorageFacts) -> String {
    let mut words = facts.file_system.clone();
    if let Some(point) = &facts.mount_point {
        let _ = write!(words, " on {}", visible_path(point));
    }
    if let Some(source) = &facts.mount_source {
        let _ = write!(words, ", from {}", visible_path(source));
    }
    if facts.read_only {
        words.push_str(", read-only");
    }
    if facts.is_network {
        words.push_str(", over a network");
    }
    words
}

fn no_device(facts: &StorageFacts) -> &'static str {
    match facts.file_system.as_str() {
        "tmpfs" | "ramfs" | "devtmpfs" => "none: files are memory",
        "overlay" => "none of its own: it shows other file systems' files",
        name if name.starts_with("fuse") => "not known: a program serves the files",
        _ if facts.is_network => "on another machine",
        _ => "not known",
    }
}

/// The device and those below it, as a tree; what only the uppermost has to say in lines of its own.
fn show_device(out: &mut dyn Write, device: &BlockDevice, width: Width) -> std::io::Result<()> {
    writeln!(
        out,
        "{DIM}  {:<13}{DIM:#}{}",
        "Device",
        wrapped(TEXT_AT, &device_words(device), width)
    )?;
    show_below(out, device, "", width)?;
    for line in [queue_words(device), block_words(device)] {
        if !line.is_empty() {
            writeln!(out, "{:TEXT_AT$}{}", "", wrapped(TEXT_AT, &line, width))?;
        }
    }
    Ok(())
}

fn show_below(out: &mut dyn Write, device: &BlockDevice, lines: &str, width: Width) -> std::io::Result<()> {
    for (index, below) in device.below.iter().enumerate() {
        let is_last = index + 1 == device.below.len();
        let (branch, under) = if is_last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let at = TEXT_AT + columns_of(lines) + columns_of(branch);
        writeln!(
            out,
            "{:TEXT_AT$}{DIM}{lines}{branch}{DIM:#}{}",
            "",
            wrapped(at, &device_words(below), width)
        )?;
        show_below(out, below, &format!("{lines}{under}"), width)?;
    }
    Ok(())
}

fn device_words(device: &BlockDevice) -> String {
    let mut words = vec![match &device.label {
        Some(label) => format!("{}: {} {}", visible(&device.name), device.kind.name(), visible(label)),
        None => format!("{}: {}", visible(&device.name), device.kind.name()),
    }];
    if let Some(file) = &device.backing_file {
        let _ = write!(&mut words[0], " on {}", visible_path(file));
    }
    if let Some(size) = device.size_bytes {
        words.push(bytes(size as f64));
    }
    // A disk says these of itself; what lies on it repeats them.
    if device.below.is_empty() {
        words.extend(device.model.as_deref().map(|model| visible(model).into_owned()));
        words.push(
            if device.is_virtual == Some(true) {
                "virtual"
            } else {
                "no sign of being virtual"
            }
            .to_owned(),
        );
        words.extend(device.claims_rotational.map(|rotates| {
            let claim = if rotates {
                "claims to rotate"
            } else {
                "claims not to rotate"
            };
            claim.to_owned()
        }));
    }
    words.join(", ")
}

fn queue_words(device: &BlockDevice) -> String {
    let mut words = Vec::new();
    words.extend(
        device
            .scheduler
            .as_ref()
            .map(|name| format!("scheduler {}", visible(name))),
    );
    words.extend(device.read_ahead_kib.map(|kib| format!("read-ahead {kib} KiB")));
    words.extend(device.max_request_kib.map(|kib| format!("requests up to {kib} KiB")));
    words.extend(device.write_cache.as_deref().map(|cache| visible(cache).into_owned()));
    words.join(", ")
}

fn block_words(device: &BlockDevice) -> String {
    match (device.logical_block_bytes, device.physical_block_bytes) {
        (Some(logical), Some(physical)) if logical != physical => {
            format!("sectors of {logical} B, of {physical} B inside")
        }
        (Some(logical), _) => format!("sectors of {logical} B"),
        _ => String::new(),
    }
}

fn show_features(out: &mut dyn Write, features: &Result<Vec<Feature>, String>, width: Width) -> std::io::Result<()> {
    let features = match features {
        Ok(features) => features,
        Err(reason) => {
            let text = wrapped(TEXT_AT, &format!("unknown: {reason}"), width);
            return writeln!(out, "{DIM}  {:<13}{DIM:#}{WARNING}{text}{WARNING:#}", "Features");
        }
    };
    writeln!(
        out,
        "{DIM}  {:<13}tried on a scratch file, which is gone again{DIM:#}",
        "Features"
    )?;
    let longest = features
        .iter()
        .map(|feature| columns_of(feature.name))
        .max()
        .unwrap_or(0);
    let at = 4 + 2 + longest + 2;
    for feature in features {
        let (style, mark, text) = match &feature.availability {
            Availability::Available => (GOOD, '+', available_words(feature)),
            Availability::Unavailable(reason) => (WARNING, '-', format!("not here: {}", visible(reason))),
        };
        writeln!(
            out,
            "    {style}{mark}{style:#} {:<longest$}  {}",
            feature.name,
            wrapped(at, &text, width)
        )?;
    }
    Ok(())
}

fn available_words(feature: &Feature) -> String {
    match feature.smallest_hole_bytes {
        Some(bytes) => format!("{}; the smallest that frees space has {bytes} B", feature.about),
        None => feature.about.to_owned(),
    }
}

/// The same for programs.
pub fn storage_json(all: &[Described]) -> Value {
    all.iter().map(described_json).collect()
}

fn described_json(described: &Described) -> Value {
    let mut object = facts_json(&described.path, &described.facts);
    object.insert("direct_alignment_bytes".to_owned(), json!(described.alignment));
    let behind = described
        .behind
        .iter()
        .map(|(path, facts)| Value::from(facts_json(path, facts)));
    object.insert("takes_from".to_owned(), behind.collect());
    let features: Value = match &described.features {
        Ok(features) => features
            .iter()
            .map(|feature| {
                let reason = feature.availability.reason();
                let state = if reason.is_none() { "available" } else { "unavailable" };
                feature_json(feature.name, feature.about, state, reason, feature.smallest_hole_bytes)
            })
            .collect(),
        Err(reason) => Feature::all()
            .map(|(name, about)| feature_json(name, about, "unknown", Some(reason), None))
            .collect(),
    };
    object.insert("features".to_owned(), features);
    object.into()
}

fn feature_json(name: &str, about: &str, state: &str, reason: Option<&str>, smallest_hole: Option<u64>) -> Value {
    let mut object = json!({"name": name, "about": about, "state": state, "reason": reason});
    if name == "punch" {
        object["smallest_hole_bytes"] = json!(smallest_hole);
    }
    object
}

fn facts_json(path: &Path, facts: &StorageFacts) -> Map<String, Value> {
    let mut object = Map::new();
    insert_path(&mut object, "path", path);
    object.insert("file_system".to_owned(), json!(facts.file_system));
    for (name, path) in [
        ("mount_point", &facts.mount_point),
        ("mount_source", &facts.mount_source),
    ] {
        match path {
            Some(path) => insert_path(&mut object, name, path),
            None => drop(object.insert(name.to_owned(), Value::Null)),
        }
    }
    for (name, value) in [
        ("mount_options", json!(facts.mount_options)),
        ("is_read_only", json!(facts.read_only)),
        ("is_network", json!(facts.is_network)),
        ("block_bytes", json!(facts.block_bytes)),
        ("free_bytes", json!(facts.free_bytes)),
        ("total_bytes", json!(facts.total_bytes)),
        ("device", facts.device.as_ref().map_or(Value::Null, device_json)),
    ] {
        object.insert(name.to_owned(), value);
    }
    object
}

fn device_json(device: &BlockDevice) -> Value {
    let mut object = Map::new();
    for (name, value) in [
        ("name", json!(device.name)),
        ("kind", json!(device.kind.name())),
        ("label", json!(device.label)),
        ("size_bytes", json!(device.size_bytes)),
        ("model", json!(device.model)),
        ("is_virtual", json!(device.is_virtual)),
        ("claims_rotational", json!(device.claims_rotational)),
        ("scheduler", json!(device.scheduler)),
        ("read_ahead_kib", json!(device.read_ahead_kib)),
        ("max_request_kib", json!(device.max_request_kib)),
        ("logical_block_bytes", json!(device.logical_block_bytes)),
        ("physical_block_bytes", json!(device.physical_block_bytes)),
        ("write_cache", json!(device.write_cache)),
    ] {
        object.insert(name.to_owned(), value);
    }
    match &device.backing_file {
        Some(file) => insert_path(&mut object, "backing_file", file),
        None => drop(object.insert("backing_file".to_owned(), Value::Null)),
    }
    object.insert("below".to_owned(), device.below.iter().map(device_json).collect());
    object.into()
}
