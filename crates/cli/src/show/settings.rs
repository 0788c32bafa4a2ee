//! Settings of a storage that may cost time: what each is, what it costs, and what another one gained here.

use std::io::{self, Write};

use seekless::{BlockDevice, StorageFacts};
use seekless_results::{WindowGain, bytes, times, visible};
use serde_json::{Value, json};

use super::page::Page;
use super::table::{aligned, widths_of};
use super::wrap::columns_of;
use super::{BOLD, DIM, PLAIN};

/// A setting, as the system reports it.
pub struct StorageSetting {
    name: &'static str,
    value: String,
    about: &'static str,
    gain: Option<WindowGain>,
}

/// Mount options that cost time or safety, with what they do. Sources: `mount(8)`, `ext4(5)`, `xfs(5)`, `btrfs(5)`.
const OPTIONS: [(&str, &str); 18] = [
    (
        "relatime",
        "a read updates the access time if the file changed since then, otherwise at most once a day; noatime avoids that",
    ),
    (
        "strictatime",
        "each read of a file writes its access time; noatime avoids that",
    ),
    ("sync", "each write waits for the device"),
    ("dirsync", "each change of a directory waits for the device"),
    (
        "discard",
        "freed blocks are discarded at once, which may slow deletes; a weekly fstrim(8) is the usual alternative",
    ),
    ("discard=async", "the device is told of freed blocks in the background"),
    ("data=journal", "all data are written twice, to the journal first"),
    (
        "data=writeback",
        "unsafe: after a crash, new files may contain stale data of deleted files",
    ),
    (
        "nodelalloc",
        "blocks are allocated at each write, which makes more extents",
    ),
    (
        "barrier=0",
        "unsafe: fsync does not flush the write cache of the device",
    ),
    (
        "nobarrier",
        "unsafe: fsync does not flush the write cache of the device",
    ),
    (
        "compress",
        "writes compress and reads decompress; direct reads use the page cache",
    ),
    ("compress-force", "as compress, also for data that do not shrink"),
    ("autodefrag", "small writes cause the file to be rewritten later"),
    ("flushoncommit", "each commit of the file system writes all data first"),
    ("wsync", "each change of a directory waits for the journal"),
    ("noac", "each access asks the server for attributes"),
    ("flush", "data are written soon after a file is closed"),
];

/// The settings of a storage, and what `gain` another read-ahead window had here.
pub fn storage_settings(facts: &StorageFacts, gain: Option<WindowGain>) -> Vec<StorageSetting> {
    let window = facts.read_ahead_kib.map(|kib| StorageSetting {
        name: "read-ahead",
        value: format!("{kib} KiB"),
        about: match kib {
            0..128 => "sequential reads wait for the device more often than with 128 KiB",
            128..=1024 => "a larger window may speed up reads from start to end",
            _ => "a window this large may slow random reads and mmap",
        },
        gain,
    });
    let mut disks = Vec::new();
    facts.device.iter().for_each(|device| push_disks(device, &mut disks));
    let schedulers = disks.into_iter().filter_map(|disk| {
        let scheduler = disk.scheduler.as_deref()?;
        Some(StorageSetting {
            name: "scheduler",
            value: format!("{scheduler} ({})", disk.name),
            about: match scheduler {
                "none" => "requests go to the device in the order in which they come",
                "mq-deadline" => {
                    "reads go before writes; on fast devices, the scheduler `none` uses less processor time"
                }
                "bfq" => "processes share the device fairly; on fast devices, fewer requests per second",
                "kyber" => "requests are held back to keep latencies low",
                _ => "another one may be faster",
            },
            gain: None,
        })
    });
    let options = facts.mount_options.as_deref().unwrap_or_default().split(',');
    let options = options.filter_map(|option| {
        let is_its = |(name, _): &&(&str, _)| option == *name || option.split('=').next() == Some(name);
        let exact = OPTIONS.iter().find(|(name, _)| option == *name);
        let (_, about) = exact.or_else(|| OPTIONS.iter().find(is_its))?;
        Some(StorageSetting {
            name: "mount option",
            value: option.to_owned(),
            about,
            gain: None,
        })
    });
    window.into_iter().chain(schedulers).chain(options).collect()
}

/// The disks at the bottom, whose queues have the schedulers.
fn push_disks<'d>(device: &'d BlockDevice, disks: &mut Vec<&'d BlockDevice>) {
    if device.below.is_empty() {
        disks.push(device);
    }
    device.below.iter().for_each(|below| push_disks(below, disks));
}

/// Shows the settings as a table; `directory` is where to measure.
pub fn show_settings(page: &mut Page<'_>, settings: &[StorageSetting], directory: &str) -> io::Result<()> {
    if settings.is_empty() {
        return page.say(DIM, "No setting of this storage is known to cost time.");
    }
    let heads = ["Setting", "Gain here"].map(str::to_owned).to_vec();
    let line = |setting: &StorageSetting| {
        let value = visible(&setting.value);
        let value = match setting.name {
            "mount option" => value.into_owned(),
            name => format!("{name} {value}"),
        };
        let gain = setting.gain.as_ref();
        let unknown = if setting.name == "read-ahead" {
            "not measured"
        } else {
            "-"
        };
        vec![value, gain.map_or_else(|| unknown.to_owned(), gain_in_words)]
    };
    let lines: Vec<Vec<String>> = settings.iter().map(line).collect();
    let widths = widths_of(lines.iter().chain([&heads]));
    page.say(BOLD, &format!("{}What it does", aligned(&heads, &widths, |_| true)))?;
    for (setting, line) in settings.iter().zip(&lines) {
        let head = aligned(line, &widths, |_| true);
        page.indented(PLAIN, &head, columns_of(&head), setting.about)?;
    }
    writeln!(page)?;
    let found = settings.iter().find_map(|setting| setting.gain.as_ref());
    if let Some(gain) = found {
        let about = format!(
            "reads of {} in the run of {}",
            bytes(gain.bytes),
            visible(&gain.started)
        );
        page.labelled(BOLD, "Measured", 10, &about)?;
    } else if settings.iter().any(|setting| setting.name == "read-ahead") {
        let command = format!(
            "seekless bench read-ahead --dir {directory} --budget 1m  (run it as root to compare five windows)"
        );
        page.labelled(BOLD, "Measure", 10, &command)?;
    }
    let others =
        format!("seekless bench --dir {directory}, before and after a change, then seekless runs compare ID latest");
    page.labelled(BOLD, "Others", 10, &others)
}

fn gain_in_words(gain: &WindowGain) -> String {
    if gain.is_shown {
        format!("{} the time with {} KiB", times(gain.ratio), gain.kib)
    } else {
        "no gain shown".to_owned()
    }
}

/// The same as JSON.
pub fn settings_json(settings: &[StorageSetting]) -> Value {
    let gain = |gain: &WindowGain| {
        json!({
            "read_ahead_kib": gain.kib, "time_ratio": gain.ratio, "is_shown": gain.is_shown, "bytes": gain.bytes,
            "started": gain.started,
        })
    };
    let object = |setting: &StorageSetting| {
        json!({
            "setting": setting.name, "value": setting.value, "about": setting.about,
            "gain": setting.gain.as_ref().map(gain),
        })
    };
    settings.iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use super::super::wrap::Width;
    use super::*;

    #[test]
    fn options_that_cost_time_are_named_and_others_are_not() {
        let mut facts = StorageFacts::default();
        facts.mount_options = Some("rw,relatime,compress=zstd:3,data=ordered,barrier=0,discard=async".to_owned());
        facts.read_ahead_kib = Some(128);
        let mut device = BlockDevice::default();
        (device.name, device.scheduler) = ("vda".to_owned(), Some("mq-deadline".to_owned()));
        let mut partition = BlockDevice::default();
        partition.below = vec![device];
        facts.device = Some(partition);
        let settings = storage_settings(&facts, None);
        let found: Vec<&str> = settings.iter().map(|setting| setting.value.as_str()).collect();
        let expected = [
            "128 KiB",
            "mq-deadline (vda)",
            "relatime",
            "compress=zstd:3",
            "barrier=0",
            "discard=async",
        ];
        assert_eq!(found, expected);
        let mut out = Vec::new();
        show_settings(&mut Page::new(&mut out, Width::of(80)), &settings, "/data").unwrap();
        let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("seekless bench read-ahead --dir /data"), "{text}");
        facts.read_ahead_kib = None;
        let mut out = Vec::new();
        let settings = storage_settings(&facts, None);
        show_settings(&mut Page::new(&mut out, Width::of(80)), &settings, "/data").unwrap();
        assert!(
            !String::from_utf8(out).unwrap().contains("read-ahead"),
            "nothing to measure"
        );
    }

    #[test]
    fn a_gain_is_told_only_where_it_was_shown() {
        let gain = |is_shown| WindowGain {
            kib: 4096,
            ratio: 0.8,
            is_shown,
            bytes: 1 << 26,
            started: "2026-11-20".to_owned(),
        };
        assert_eq!(gain_in_words(&gain(true)), "0.80x the time with 4096 KiB");
        assert_eq!(gain_in_words(&gain(false)), "no gain shown");
    }
}
