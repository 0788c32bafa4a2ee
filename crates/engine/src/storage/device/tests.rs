//! The chain of devices, on trees laid out as the kernel lays out `/sys`.

use std::os::unix::fs::symlink;

use super::*;

/// A `/sys` in a temporary directory.
struct Tree {
    all: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        fs::create_dir_all(all.path().join("dev/block")).unwrap();
        Self { all }
    }

    /// A device at a path below `devices`, known by its number, with files of these contents.
    fn device(&self, number: u64, path: &str, files: &[(&str, &str)]) -> PathBuf {
        let directory = self.all.path().join("devices").join(path);
        fs::create_dir_all(&directory).unwrap();
        for (name, content) in files {
            let file = directory.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{content}\n")).unwrap();
        }
        let link = self.all.path().join("dev/block").join(number_text(number));
        let _ = fs::remove_file(&link);
        symlink(&directory, link).unwrap();
        directory
    }

    /// A device made by the device mapper, with its UUID and name.
    fn mapped(&self, minor: u64, uuid: &str, name: &str) -> PathBuf {
        let path = format!("virtual/block/dm-{minor}");
        self.device(0xfd00 + minor, &path, &[("dm/uuid", uuid), ("dm/name", name)])
    }

    /// Makes one device a member of another.
    fn member(above: &Path, below: &Path) {
        fs::create_dir_all(above.join("slaves")).unwrap();
        symlink(below, above.join("slaves").join(below.file_name().unwrap())).unwrap();
    }

    fn behind(&self, number: u64) -> BlockDevice {
        let mounts = Mounts::default();
        Devices::new(self.all.path(), &mounts).behind(number, None).unwrap()
    }
}

/// A chain as a text: names and kinds from top to bottom, members in brackets.
fn chain(device: &BlockDevice) -> String {
    let below: Vec<String> = device.below.iter().map(chain).collect();
    let label = device.label.as_ref().map(|label| format!(" {label}"));
    let below = (!below.is_empty()).then(|| format!(" [{}]", below.join(", ")));
    let [label, below] = [label, below].map(Option::unwrap_or_default);
    format!("{}:{}{label}{below}", device.name, device.kind.name())
}

#[test]
fn device_of_a_partition_is_its_disk_with_scheduler() {
    let tree = Tree::new();
    let queue = [
        ("queue/rotational", "1"),
        ("queue/scheduler", "none [mq-deadline] kyber"),
        ("queue/read_ahead_kb", "128"),
        ("queue/physical_block_size", "4096"),
        ("device/model", "WDC WD40"),
        ("size", "1000"),
    ];
    tree.device(0x800, "pci/block/sda", &queue);
    tree.device(0x801, "pci/block/sda/sda1", &[("partition", "1"), ("size", "200")]);
    let found = tree.behind(0x801);
    assert_eq!(chain(&found), "sda1:partition [sda:disk]");
    assert_eq!(found.disk_names(), ["sda"]);
    assert_eq!(found.size_bytes, Some(200 * 512));
    assert_eq!(found.below[0].size_bytes, Some(1000 * 512));
    assert_eq!(found.model.as_deref(), Some("WDC WD40"));
    assert_eq!(found.scheduler.as_deref(), Some("mq-deadline"));
    assert_eq!((found.claims_rotational, found.is_virtual), (Some(true), Some(false)));
    assert_eq!(found.read_ahead_kib, Some(128));
    assert_eq!(found.physical_block_bytes, Some(4096));
    assert!(tree.behind(0x800).disk_names().is_empty(), "a disk lies on nothing");
    assert_eq!(in_brackets("none [mq-deadline] kyber"), "mq-deadline");
    assert_eq!(in_brackets("none"), "none");
}

#[test]
fn device_of_an_encrypted_volume_leads_to_the_disk() {
    let tree = Tree::new();
    tree.device(0x1_0300, "pci/nvme/nvme0n1", &[("device/model", "Samsung SSD 970")]);
    let partition = tree.device(0x1_0302, "pci/nvme/nvme0n1/nvme0n1p2", &[("partition", "2")]);
    let crypt = tree.mapped(0, "CRYPT-LUKS2-12-x", "x");
    let volume = tree.mapped(1, "LVM-abc", "vg-root");
    Tree::member(&crypt, &partition);
    Tree::member(&volume, &crypt);
    let found = tree.behind(0xfd01);
    let expected = "dm-1:lvm vg-root [dm-0:crypt x [nvme0n1p2:partition [nvme0n1:disk]]]";
    assert_eq!(chain(&found), expected);
    assert_eq!(found.disk_names(), ["nvme0n1"]);
}

#[test]
fn device_of_an_array_has_all_members_and_is_virtual_if_one_is() {
    let tree = Tree::new();
    let array = tree.device(0x900, "virtual/block/md0", &[("md/level", "raid1")]);
    let one = tree.device(0xfe00, "pci0/virtio1/block/vda", &[]);
    let other = tree.device(0x810, "pci/block/sdb", &[("device/model", "Real")]);
    Tree::member(&array, &other);
    Tree::member(&array, &one);
    let found = tree.behind(0x900);
    assert_eq!(chain(&found), "md0:raid raid1 [sdb:disk, vda:disk]");
    assert_eq!(found.disk_names(), ["sdb", "vda"]);
    assert_eq!(found.is_virtual, Some(true));
    assert_eq!(found.below[0].is_virtual, Some(false));
}

#[test]
fn device_of_a_multipath_partition_has_every_way_to_it() {
    let tree = Tree::new();
    let disk = tree.mapped(0, "mpath-3600", "mpatha");
    let part = tree.mapped(1, "part1-mpath-3600", "mpatha1");
    Tree::member(&part, &disk);
    for (number, name) in [(0x800, "sda"), (0x810, "sdb")] {
        let way = tree.device(number, &format!("pci/block/{name}"), &[]);
        Tree::member(&disk, &way);
    }
    let expected = "dm-1:partition mpatha1 [dm-0:multipath mpatha [sda:disk, sdb:disk]]";
    assert_eq!(chain(&tree.behind(0xfd01)), expected);
}

#[test]
fn device_of_a_loop_is_what_its_file_lies_on() {
    let tree = Tree::new();
    // The file is a real one, so its device number is that of the directory these tests run in.
    let file = tree.all.path().join("image with space");
    fs::write(&file, "x").unwrap();
    let number = fs::metadata(&file).unwrap().dev();
    let mapped = [("dm/uuid", "LVM-x"), ("dm/name", "vg-data")];
    let volume = tree.device(number, "virtual/block/dm-3", &mapped);
    Tree::member(&volume, &tree.device(0x820, "pci/block/sdc", &[]));
    let backing = [("loop/backing_file", file.to_str().unwrap())];
    tree.device(0x700, "virtual/block/loop0", &backing);
    let found = tree.behind(0x700);
    assert_eq!(chain(&found), "loop0:loop [dm-3:lvm vg-data [sdc:disk]]");
    assert_eq!(found.backing_file, Some(file));
    let gone = [("loop/backing_file", "/gone (deleted)")];
    tree.device(0x700, "virtual/block/loop0", &gone);
    let found = tree.behind(0x700);
    assert_eq!(chain(&found), "loop0:loop");
    assert_eq!(found.backing_file, Some(PathBuf::from("/gone (deleted)")));
}

#[test]
fn device_of_a_simulator_mount_is_simulated_no_other_is() {
    let mount = |file_system: &str, source: &str| Mount {
        file_system: file_system.to_owned(),
        source: source.into(),
        ..Mount::default()
    };
    let found = simulated(&mount("fuse.seekless-sim", "seekless-sim:hdd-2009:1a")).unwrap();
    assert_eq!(chain(&found), "simulated-hdd-2009:simulated hdd-2009");
    assert_eq!(found.serial.as_deref(), Some("1a"));
    assert_eq!(simulated(&mount("fuse.sshfs", "seekless-sim:hdd-2009:1a")), None);
    assert_eq!(simulated(&mount("fuse.seekless-sim", "/dev/sda1")), None);
}

#[test]
fn device_tree_in_circles_has_an_end() {
    let tree = Tree::new();
    let one = tree.device(0xfd00, "virtual/block/dm-0", &[("dm/name", "a")]);
    let other = tree.device(0xfd01, "virtual/block/dm-1", &[("dm/name", "b")]);
    Tree::member(&one, &other);
    Tree::member(&other, &one);
    assert_eq!(tree.behind(0xfd00).disk_names().len(), 1);
}

#[test]
fn device_number_without_device_is_answered_by_its_mount() {
    let tree = Tree::new();
    let mounts = Mounts::default();
    let devices = Devices::new(tree.all.path(), &mounts);
    assert_eq!(devices.behind(7, None), None);
    let named = |source: &str| Mount {
        source: PathBuf::from(source),
        ..Mount::default()
    };
    assert_eq!(devices.behind(7, Some(&named("overlay"))), None);
    // Any device will do: the null device is everywhere, and the tree says what its number is.
    let null = fs::metadata("/dev/null").unwrap().rdev();
    tree.device(null, "virtual/block/vdx", &[]);
    let found = devices.behind(7, Some(&named("/dev/null")));
    assert_eq!(chain(&found.unwrap()), "vdx:disk");
}

/// The uses of a device as a text: names, mounted file systems, and devices above it in brackets.
fn uses(found: &DeviceUse) -> String {
    let mounts = found.mounts.iter().map(|mount| {
        let point = mount.point.as_deref().unwrap_or(Path::new("-"));
        format!("{}:{}", mount.file_system, point.display())
    });
    let above: Vec<String> = found.above.iter().map(uses).collect();
    let above = (!above.is_empty()).then(|| format!("[{}]", above.join(", ")));
    let words = [found.device.name.clone()].into_iter().chain(mounts).chain(above);
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn device_of_a_disk_has_partitions_mounts_and_what_is_above() {
    let tree = Tree::new();
    tree.device(0x800, "pci/block/sda", &[("dev", "8:0")]);
    tree.device(0x801, "pci/block/sda/sda1", &[("partition", "1"), ("dev", "8:1")]);
    let second = tree.device(0x802, "pci/block/sda/sda2", &[("partition", "2"), ("dev", "8:2")]);
    let mapped = [("dm/name", "vg-root"), ("dev", "253:0")];
    let volume = tree.device(0xfd00, "virtual/block/dm-0", &mapped);
    Tree::member(&volume, &second);
    fs::create_dir(second.join("holders")).unwrap();
    symlink(&volume, second.join("holders/dm-0")).unwrap();
    let mounts = Mounts::parse(
        b"22 1 8:1 / /boot rw - vfat /dev/sda1 rw\n23 1 253:0 / / rw - xfs /dev/mapper/vg-root rw\n\
        24 1 253:0 /x /srv rw - xfs /dev/mapper/vg-root rw\n25 1 8:32 / /other rw - ext4 /dev/sdc rw\n",
    );
    let devices = Devices::new(tree.all.path(), &mounts);
    let found = devices.uses(0x800, "").unwrap();
    assert_eq!(uses(&found), "sda [sda1 vfat:/boot, sda2 [dm-0 xfs:/ xfs:/srv]]");
    assert_eq!(uses(&devices.uses(0x801, "").unwrap()), "sda1 vfat:/boot");
    assert_eq!(devices.uses(0x900, ""), None);
}

#[test]
fn device_of_swap_and_numberless_file_systems_is_their_source() {
    let tree = Tree::new();
    // Any device will do: the null device is everywhere.
    let null = fs::metadata("/dev/null").unwrap().rdev();
    tree.device(null, "virtual/block/vdx", &[("dev", &number_text(null))]);
    let mounts = Mounts::parse(b"22 1 0:38 / /data rw - btrfs /dev/null rw\n");
    let found = Devices::new(tree.all.path(), &mounts).uses(null, "Filename Type Size\n/dev/null partition 8\n");
    assert_eq!(uses(&found.unwrap()), "vdx btrfs:/data swap:-");
}
