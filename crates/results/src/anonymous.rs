//! A run without anything that identifies its owner.
//!
//! Each text is one of a list of known words, or generated here, or removed: a text that is not known to be harmless is never
//! kept, in any field. Figures are kept, except the free space and the available memory.

use std::collections::BTreeMap;

use seekless_method::{ALIASES, Method};
use seekless_record::{Column, Published, Run, SIMULATED, Text, Visitor, driver};

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
    /// The canonical text of a layout; `None` if it is not a layout.
    pub layout: fn(&str) -> Option<String>,
}

/// The run without host, paths, serial numbers, commands, reasons and other words of its owner.
///
/// It keeps the figures, the methods, the file system, the kernel's version, the kind and settings of the device, the names of
/// processors and models of disks whose makers are known, and a host that is a pseudonym. The conclusions are computed again from the trials.
#[must_use]
pub fn anonymous(run: &Run, known: &Known) -> Run {
    let given = run.experiments.iter().filter_map(|name| (known.experiment)(name));
    let (published, columns): (Vec<_>, Vec<_>) = given.unzip();
    let id = format!("{}-{:08x}", day(&run.started), fingerprint(run));
    let mut run = run.clone();
    run.visit(&mut Anonymise {
        known,
        given: BTreeMap::new(),
    });
    run.id = id;
    run.choices = vec!["names, paths and reasons were removed to share the run".to_owned()];
    run.published = published.concat();
    run.columns = columns.concat();
    run.machine.memory_available_bytes = None;
    for storage in &mut run.storages {
        storage.free_bytes = None;
        storage.id = None;
    }
    conclude_all(&mut run);
    run
}

/// Replaces each text by what may be published.
struct Anonymise<'a> {
    known: &'a Known,
    /// The names that were given, by what they name and what it was called.
    given: BTreeMap<(&'static str, String), String>,
}

impl Visitor for Anonymise<'_> {
    fn text(&mut self, _place: &str, about: Text, text: &mut String) -> bool {
        let told = self.told(about, text);
        let is_told = told.is_some();
        *text = told.unwrap_or_else(|| UNKNOWN.to_owned());
        is_told
    }
}

/// Replaces a text that cannot be left out.
const UNKNOWN: &str = "unknown";

impl Anonymise<'_> {
    fn told(&mut self, about: Text, text: &str) -> Option<String> {
        let known = self.known;
        match about {
            Text::Private => None,
            Text::Host => is_pseudonym(text).then(|| text.to_owned()),
            Text::System => among(SYSTEMS, text),
            Text::Architecture => among(ARCHITECTURES, text),
            Text::Governor => among(GOVERNORS, text),
            Text::Scheduler => among(SCHEDULERS, text),
            Text::WriteCache => matches!(text, "write back" | "write through").then(|| text.to_owned()),
            Text::FileSystem if text.starts_with("fuse.") => Some("fuse".to_owned()),
            Text::FileSystem => among(FILE_SYSTEMS, text),
            Text::MountOptions => Some(mount_options(text)),
            Text::Version => digits_and_dots(text),
            Text::Started => Some(format!("{}T00:00:00Z", day(text))),
            Text::Processor => processor(text),
            Text::Model => model(text),
            Text::Hypervisor => Some(hypervisor(text)),
            // A name of this program's, which tells that the disk does not exist.
            Text::Device if text.starts_with(SIMULATED) => Some(simulated(text).to_owned()),
            Text::Device => driver(text).map(str::to_owned),
            Text::Path => Some(self.name("storage", text)),
            Text::Experiment if (known.experiment)(text).is_some() => Some(text.to_owned()),
            Text::Experiment => Some(self.name("custom", text)),
            Text::CommandName => Some(self.name("command", text)),
            Text::Method => Some(match text.parse::<Method>() {
                Ok(method) => method.to_string(),
                Err(_) => self.name(UNKNOWN, text),
            }),
            Text::Consumer => Some(text.to_owned()).filter(|text| (known.is_kernel)(text)),
            Text::Layout => Some((known.layout)(text).unwrap_or_else(|| UNKNOWN.to_owned())),
            Text::Label => ALIASES.iter().any(|alias| alias.name == text).then(|| text.to_owned()),
            Text::Reason => Some("the reason was removed".to_owned()),
        }
    }

    /// A name of ours, the same for the same.
    fn name(&mut self, word: &'static str, name: &str) -> String {
        let number = self.given.keys().filter(|(known, _)| *known == word).count() + 1;
        let given = self.given.entry((word, name.to_owned()));
        given.or_insert_with(|| format!("{word}-{number}")).clone()
    }
}

/// The day of a time; the beginning of the epoch where it is none.
fn day(time: &str) -> String {
    let time: jiff::Timestamp = time.parse().unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%d").to_string()
}

/// The version before what its builder added: `6.18.44` of `6.18.44-my-machine`.
fn digits_and_dots(version: &str) -> Option<String> {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.');
    let digits = version[..end.unwrap_or(version.len())].trim_matches('.');
    // No version has more; more could be a message.
    let is_version =
        !digits.is_empty() && digits.split('.').count() <= 4 && digits.split('.').all(|part| part.len() <= 5);
    is_version.then(|| digits.to_owned())
}

/// The name of a simulated disk, if its model may be one of this program's.
fn simulated(name: &str) -> &str {
    let is_of_a_model = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.len() <= 32 && name.chars().all(is_of_a_model) {
        name
    } else {
        SIMULATED
    }
}

/// The text, where it is one of some words.
fn among(words: &str, text: &str) -> Option<String> {
    words.split(' ').any(|word| word == text).then(|| text.to_owned())
}

const SYSTEMS: &str = "Linux macOS FreeBSD NetBSD OpenBSD DragonFly SunOS";
const ARCHITECTURES: &str = "x86_64 aarch64 riscv64 powerpc64 s390x loongarch64 mips64 sparc64 x86";
const GOVERNORS: &str = "performance powersave schedutil ondemand conservative userspace";
const SCHEDULERS: &str = "none mq-deadline kyber bfq noop deadline cfq";
const FILE_SYSTEMS: &str = "ext2 ext3 ext4 xfs btrfs bcachefs f2fs zfs jfs reiserfs nilfs2 vfat exfat ntfs ntfs3 apfs hfs \
                            ufs tmpfs ramfs overlay fuse nfs nfs4 cifs smb3 9p virtiofs ceph fuseblk erofs squashfs iso9660";

/// A processor's name, if its maker is known and all its characters are usual in names of processors.
fn processor(name: &str) -> Option<String> {
    const MAKERS: &str = "Intel(R),AMD,ARM,Cortex,Apple,Ampere,Neoverse,Qualcomm,Raspberry Pi,Loongson,POWER,Hygon";
    of_maker(name, MAKERS)
}

/// A disk's model, as its firmware tells it, likewise.
fn model(name: &str) -> Option<String> {
    const MAKERS: &str = "Samsung,SAMSUNG,WDC,WDS,WD,Western Digital,ST,Seagate,TOSHIBA,HGST,Hitachi,INTEL,Solidigm,KINGSTON,CT,Crucial,\
                          SanDisk,Micron,MTFD,SK hynix,SKHynix,HFS,KIOXIA,KXG,APPLE,Corsair,ADATA,Sabrent,PNY,Lexar,Patriot,\
                          Transcend,Plextor,QEMU,VBOX,VMware,Virtual,Msft,Amazon,Google,nvme_card,PersistentDisk";
    of_maker(name, MAKERS)
}

fn of_maker(name: &str, makers: &str) -> Option<String> {
    const LONGEST: usize = 64;
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || " ()@._-".contains(c));
    // `ST` is a maker in `ST4000DM004`, and none in `Stefan`.
    let is_short = |maker: &str| maker.len() <= 3;
    let begins = makers.split(',').any(|maker| {
        let rest = name.strip_prefix(maker);
        rest.is_some_and(|rest| !is_short(maker) || !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    });
    (is_plain && begins && name.len() <= LONGEST).then(|| name.to_owned())
}

/// Begins the pseudonym of a machine; 16 hexadecimal digits follow.
pub const PSEUDONYM: &str = "machine-";

fn is_pseudonym(host: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    host.strip_prefix(PSEUDONYM)
        .is_some_and(|digits| digits.len() == 16 && digits.chars().all(is_digit))
}

/// What a machine runs under, without the model and owner that firmware may name.
fn hypervisor(name: &str) -> String {
    const KNOWN: &str = "KVM,QEMU,VMware,VirtualBox,Xen,xen,Parallels,Google Compute Engine,Amazon EC2";
    let found = KNOWN.split(',').find(|known| name.contains(known));
    found.unwrap_or("unnamed").to_owned()
}

/// The options that say how a file system works; those that name users, labels and paths are not among them.
fn mount_options(options: &str) -> String {
    const KNOWN: &str = "rw ro sync async dirsync relatime noatime strictatime lazytime discard nodiscard discard=async \
                         ssd nossd barrier nobarrier nodatacow nodatasum autodefrag data=ordered data=writeback \
                         data=journal delalloc nodelalloc dax dax=always dax=inode inode64 noquota largeio compress=zstd \
                         compress=lzo compress=zlib compress-force=zstd space_cache=v2 nobarriers";
    let kept: Vec<String> = options.split(',').filter_map(|option| among(KNOWN, option)).collect();
    kept.join(",")
}

#[cfg(test)]
pub(crate) const NOTHING_KNOWN: Known = Known {
    experiment: |_| None,
    is_kernel: |_| false,
    layout: |_| None,
};
