//! The processes that have a file open, as far as `/proc` shows them to this user.

use std::fs;

use seekless::files::Identity;

/// The most processes to name.
const MOST: usize = 3;

/// Processes that have the file open, as in `less (4711)`; empty where none can be seen.
pub(super) fn holders(file: Identity) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|&id| id != std::process::id() && has_open(id, file))
        .take(MOST)
        .map(|id| {
            let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
            format!("{} ({id})", name.trim_end())
        })
        .collect()
}

fn has_open(process: u32, file: Identity) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|entry| {
        let found = fs::metadata(entry.path());
        found.is_ok_and(|found| Identity::of(&found) == file)
    })
}
