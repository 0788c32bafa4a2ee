//! The processes that have a file open, as far as `/proc` shows them to this user.

use std::fs;

use seekless_sys::has_open;

/// The most processes to name.
const MOST: usize = 3;

/// Processes that have the file open, as in `less (4711)`; empty where none can be seen.
pub(super) fn holders(device: u64, inode: u64) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|&id| id != std::process::id() && has_open(&id.to_string(), device, inode))
        .take(MOST)
        .map(|id| {
            let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
            format!("{} ({id})", name.trim_end())
        })
        .collect()
}
