//! Settings of a storage that may cost time: what each is, what it costs, and what another one gained here.

use std::io::{self, Write};

use seekless_engine::{BlockDevice, StorageFacts};
use seekless_results::{WindowGain, bytes, times, visible};
use serde::Serialize;

use super::page::Page;
use super::table::print_with_texts;
use super::{BOLD, DIM};

/// A setting, as the system reports it.
#[derive(Serialize)]
pub struct StorageSetting {
    #[serde(rename = "setting")]
    name: &'static str,
    value: String,
    about: &'static str,
    gain: Option<WindowGain>,
}

/// Mount options that cost time or safety, a line for each, with what they do. Sources: `mount(8)`, `ext4(5)`, `xfs(5)`, `btrfs(5)`.
const OPTIONS: &str = include_str!("mount-options.txt");

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
        let about = |name: &str| {
            OPTIONS
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let about = about(option).or_else(|| about(option.split('=').next()?))?;
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
    let row = |setting: &StorageSetting| {
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
        let gain = gain.map_or_else(|| unknown.to_owned(), gain_in_words);
        ([value, gain], setting.about)
    };
    let rows: Vec<_> = settings.iter().map(row).collect();
    print_with_texts(page, ["Setting", "Gain here", "What it does"], &rows)?;
    writeln!(page)?;
    let found = settings.iter().find_map(|setting| setting.gain.as_ref());
    if let Some(gain) = found {
        let (size, started) = (bytes(gain.bytes), visible(&gain.started));
        let about = format!("reads of {size} in the run of {started}");
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
