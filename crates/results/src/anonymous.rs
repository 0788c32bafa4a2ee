//! A run without what tells whose it is.
//!
//! Every text is either one of a list of known words, or made anew here, or left out: what is not known to be harmless
//! does not get out, whichever field it stands in. Figures stay, but for the free space and memory of the moment.

use std::collections::BTreeMap;

use seekless_method::ALIASES;
use seekless_method::{Method, Operation};
use seekless_record::{Column, Contest, Device, Entry, Machine, Published, Run, Status, Storage};

use crate::ranking::conclude_all;
use crate::same::fingerprint;

/// What an experiment gives of what others published, and its columns.
pub type Given = (Vec<Published>, Vec<Column>);

/// What only the lab knows of the words in a run.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What a built-in experiment gives; `None` if no built-in experiment has this name.
    pub experiment: fn(&str) -> Option<Given>,
    /// Whether a kernel has this name.
    pub is_kernel: fn(&str) -> bool,
    /// The text of a layout, printed from what was parsed; `None` if it is no layout.
    pub layout: fn(&str) -> Option<String>,
}

/// The run without host, paths, serial numbers, models, commands, reasons and other words of its owner's.
///
/// Kept are the figures, the methods, the file system, the kernel's version, the kind of device and what it is set to, and
/// the processor's name where it names a known maker. What follows from the trials is concluded anew.
#[must_use]
pub fn anonymous(run: &Run, known_words: &Known) -> Run {
    let builtin = |name: &str| (known_words.experiment)(name);
    let mut experiments = Names::new("custom");
    let mut experiment = |name: &str| builtin(name).map_or_else(|| experiments.of(name), |_| name.to_owned());
    let given = run.experiments.iter().filter_map(|name| builtin(name));
    let (published, columns): (Vec<_>, Vec<_>) = given.unzip();
    let mut anonymous = Run {
        id: format!("{}-{:08x}", day(&run.started), fingerprint(run)),
        seekless: digits_and_dots(&run.seekless),
        started: format!("{}T00:00:00Z", day(&run.started)),
        experiments: run.experiments.iter().map(|name| experiment(name)).collect(),
        drop: known(&run.drop, &["file", "system"]),
        machine: machine(&run.machine),
        storages: run.storages.iter().enumerate().map(storage).collect(),
        contests: run
            .contests
            .iter()
            .map(|one| contest(one, experiment(&one.experiment), known_words))
            .collect(),
        choices: vec!["names, paths and reasons were taken out, to pass it on".to_owned()],
        warnings: Vec::new(),
        published: published.concat(),
        columns: columns.concat(),
        ..run.clone()
    };
    for trial in &mut anonymous.trials {
        trial.invalid = trial
            .invalid
            .as_ref()
            .map(|_| "it was not what it claims to be".to_owned());
        if let Some(method) = trial.updated.as_mut().and_then(|updated| updated.planned.as_mut()) {
            *method = method
                .parse()
                .map_or_else(|_| "unknown".to_owned(), |known: Method| known.to_string());
        }
    }
    conclude_all(&mut anonymous);
    anonymous
}

/// Names get a number each; the same for the same.
struct Names {
    word: &'static str,
    given: BTreeMap<String, String>,
}

impl Names {
    fn new(word: &'static str) -> Self {
        Self {
            word,
            given: BTreeMap::new(),
        }
    }

    fn of(&mut self, name: &str) -> String {
        let next = format!("{}-{}", self.word, self.given.len() + 1);
        self.given.entry(name.to_owned()).or_insert(next).clone()
    }
}

/// The day of a time; the beginning of the epoch where it is none.
fn day(time: &str) -> String {
    let time: jiff::Timestamp = time.parse().unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%d").to_string()
}

/// The version before what its builder added: `6.18.44` of `6.18.44-my-machine`.
fn digits_and_dots(version: &str) -> String {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.');
    let digits = version[..end.unwrap_or(version.len())].trim_matches('.');
    if digits.is_empty() {
        "unknown".to_owned()
    } else {
        digits.to_owned()
    }
}

fn known(text: &str, words: &[&str]) -> String {
    if words.contains(&text) { text } else { "unknown" }.to_owned()
}

fn known_or_none(text: Option<&String>, words: &[&str]) -> Option<String> {
    text.filter(|text| words.contains(&text.as_str())).cloned()
}

fn machine(machine: &Machine) -> Machine {
    const SYSTEMS: [&str; 7] = ["Linux", "macOS", "FreeBSD", "NetBSD", "OpenBSD", "DragonFly", "SunOS"];
    const ARCHITECTURES: [&str; 9] = [
        "x86_64",
        "aarch64",
        "riscv64",
        "powerpc64",
        "s390x",
        "loongarch64",
        "mips64",
        "sparc64",
        "x86",
    ];
    const GOVERNORS: [&str; 6] = [
        "performance",
        "powersave",
        "schedutil",
        "ondemand",
        "conservative",
        "userspace",
    ];
    Machine {
        host: None,
        system: known(&machine.system, &SYSTEMS),
        kernel: digits_and_dots(&machine.kernel),
        architecture: known(&machine.architecture, &ARCHITECTURES),
        processor: machine.processor.as_deref().and_then(processor),
        memory_available_bytes: None,
        hypervisor: machine.hypervisor.as_deref().map(hypervisor),
        governor: known_or_none(machine.governor.as_ref(), &GOVERNORS),
        ..machine.clone()
    }
}

/// A processor's name, where its maker is known and it has only what such names have.
fn processor(name: &str) -> Option<String> {
    const MAKERS: [&str; 12] = [
        "Intel(R)",
        "AMD",
        "ARM",
        "Cortex",
        "Apple",
        "Ampere",
        "Neoverse",
        "Qualcomm",
        "Raspberry Pi",
        "Loongson",
        "POWER",
        "Hygon",
    ];
    const LONGEST: usize = 64;
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || " ()@.-".contains(c));
    let begins = MAKERS.iter().any(|maker| name.starts_with(maker));
    (is_plain && begins && name.len() <= LONGEST).then(|| name.to_owned())
}

/// What a machine runs under, without the model and owner that firmware may name.
fn hypervisor(name: &str) -> String {
    const KNOWN: [&str; 9] = [
        "KVM",
        "QEMU",
        "VMware",
        "VirtualBox",
        "Xen",
        "xen",
        "Parallels",
        "Google Compute Engine",
        "Amazon EC2",
    ];
    let found = KNOWN.iter().find(|known| name.contains(**known));
    found.map_or("unnamed", |known| known).to_owned()
}

fn storage((index, storage): (usize, &Storage)) -> Storage {
    const FILE_SYSTEMS: [&str; 32] = [
        "ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "zfs", "jfs", "reiserfs", "nilfs2", "vfat",
        "exfat", "ntfs", "ntfs3", "apfs", "hfs", "ufs", "tmpfs", "ramfs", "overlay", "nfs", "nfs4", "cifs", "smb3",
        "9p", "virtiofs", "ceph", "fuseblk", "erofs", "squashfs", "iso9660",
    ];
    let is_fuse = storage.file_system.starts_with("fuse.");
    Storage {
        path: format!("storage-{}", index + 1),
        file_system: if is_fuse {
            "fuse".to_owned()
        } else {
            known(&storage.file_system, &FILE_SYSTEMS)
        },
        mount_options: storage.mount_options.as_deref().map(mount_options),
        mount_point: None,
        free_bytes: None,
        device: storage.device.as_ref().map(device),
        facts: BTreeMap::new(),
        ..storage.clone()
    }
}

/// The options that say how a file system works; those that name users, labels and paths are not among them.
fn mount_options(options: &str) -> String {
    const KNOWN: [&str; 36] = [
        "rw",
        "ro",
        "sync",
        "async",
        "dirsync",
        "relatime",
        "noatime",
        "strictatime",
        "lazytime",
        "discard",
        "nodiscard",
        "discard=async",
        "ssd",
        "nossd",
        "barrier",
        "nobarrier",
        "nodatacow",
        "nodatasum",
        "autodefrag",
        "data=ordered",
        "data=writeback",
        "data=journal",
        "delalloc",
        "nodelalloc",
        "dax",
        "dax=always",
        "dax=inode",
        "inode64",
        "noquota",
        "largeio",
        "compress=zstd",
        "compress=lzo",
        "compress=zlib",
        "compress-force=zstd",
        "space_cache=v2",
        "nobarriers",
    ];
    let kept: Vec<&str> = options.split(',').filter(|option| KNOWN.contains(option)).collect();
    kept.join(",")
}

fn device(device: &Device) -> Device {
    const SCHEDULERS: [&str; 7] = ["none", "mq-deadline", "kyber", "bfq", "noop", "deadline", "cfq"];
    Device {
        name: device_name(&device.name),
        below: device.below.iter().map(|name| device_name(name)).collect(),
        model: None,
        scheduler: known_or_none(device.scheduler.as_ref(), &SCHEDULERS),
        write_cache: known_or_none(device.write_cache.as_ref(), &["write back", "write through"]),
        ..device.clone()
    }
}

/// The driver's part of a device's name: `nvme` of `nvme0n1p2`.
fn device_name(name: &str) -> String {
    const DRIVERS: [&str; 16] = [
        "nvme", "mmcblk", "loop", "xvd", "zram", "pmem", "drbd", "nbd", "rbd", "ram", "dm", "md", "vd", "sd", "hd",
        "sr",
    ];
    let driver = DRIVERS.iter().find(|driver| name.starts_with(**driver));
    driver.map_or("unknown", |driver| driver).to_owned()
}

fn contest(contest: &Contest, experiment: String, known_words: &Known) -> Contest {
    let mut commands = Names::new("command");
    let mut methods = Names::new("unknown");
    let kernel = Some(contest.kernel.as_str()).filter(|kernel| (known_words.is_kernel)(kernel));
    let layout = |text: &str| (known_words.layout)(text).unwrap_or_else(|| "unknown".to_owned());
    let mut name = |entry: &Entry| match (&entry.command, entry.method.parse::<Method>()) {
        (None, Ok(method)) => method.to_string(),
        (None, Err(_)) => methods.of(&entry.method),
        (Some(_), _) => format!("command/{}", commands.of(&entry.method)),
    };
    Contest {
        experiment,
        operation: known(&contest.operation, &Operation::ALL.map(Operation::name)),
        kernel: kernel.unwrap_or("unknown").to_owned(),
        durability: known(&contest.durability, &["none", "fsync", "write-through"]),
        layout: contest.layout.as_deref().map(layout),
        entries: contest
            .entries
            .iter()
            .map(|entry| Entry {
                method: name(entry),
                command: entry.command.as_ref().map(|_| seekless_record::Command {
                    name: "command".to_owned(),
                    argv: Vec::new(),
                    before: Vec::new(),
                    exit_code: entry
                        .command
                        .as_ref()
                        .map(|command| command.exit_code)
                        .unwrap_or_default(),
                    note: None,
                }),
                label: entry.label.as_ref().and_then(|label| known_label(label)),
                status: status(&entry.status),
                ..entry.clone()
            })
            .collect(),
        conclusion: None,
        ..contest.clone()
    }
}

/// A name that a document gave a method.
fn known_label(label: &str) -> Option<String> {
    let known = ALIASES.iter().find(|alias| alias.name == label)?;
    Some(known.name.to_owned())
}

/// The reasons may name files and what others run.
fn status(status: &Status) -> Status {
    match status {
        Status::Measured => Status::Measured,
        Status::Unavailable(_) => Status::Unavailable("the storage or the system does not offer it".to_owned()),
        Status::Dropped(_) => Status::Dropped("clearly beaten".to_owned()),
        Status::Failed(_) => Status::Failed("it failed, or gave a wrong answer".to_owned()),
        Status::Unmeasured(_) => Status::Unmeasured("its turn did not come".to_owned()),
    }
}

#[cfg(test)]
pub(crate) const NOTHING_KNOWN: Known = Known {
    experiment: |_| None,
    is_kernel: |_| false,
    layout: |_| None,
};
