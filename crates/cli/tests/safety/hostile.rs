//! What an adversary found: other programs that write through mappings, file systems that show two files under one number,
//! rules that match nothing, and sizes that files only claim.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::place::{Ended, Mount, Place, assert_contains, is_root, prepared, words};

/// An overlay on `mount`, whose upper directory is beside it.
fn overlay(place: &Place) -> Option<Mount> {
    place.directories("mount source upper work");
    let layers = ["source", "upper", "work"].map(|name| place.path(name));
    Mount::overlay([&layers[0], &layers[1], &layers[2]], &place.path("mount"))
}

/// A program that has mapped a file shared and closed its descriptor, and writes when its input ends.
struct Mapper(Child);

impl Mapper {
    fn new(file: &Path) -> Option<Self> {
        const PROGRAM: &str = "
import ctypes, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, ctypes.c_size_t(8192), 3, 1, file, ctypes.c_long(0))
os.close(file)
print('mapped', flush=True)
sys.stdin.read()
ctypes.memmove(at + 4096, b'PRECIOUS', 8)
";
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM]).arg(file);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            println!("skipped: there is no python3");
            return None;
        };
        let mut word = [0; 7];
        child.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
        Some(Self(child))
    }

    fn write(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

#[test]
fn overlay_file_that_a_program_has_mapped_is_left_alone() {
    let updates = "{\"offset\": 4000, \"text\": \"AAAA\"}\n{\"offset\": 4200, \"text\": \"BBBB\"}\n";
    for command in [
        "holes dig mount/b",
        "holes punch --yes mount/b 0 8K",
        "update mount/b --from changes --method coalesce,gap=4K",
        "update mount/b --from changes --safety replace",
        "dupes --action remove --keep name:a --yes mount",
        "dupes --action hardlink --keep name:a --yes mount",
    ] {
        let place = Place::new();
        let Some(_mount) = overlay(&place) else { return };
        for name in ["mount/a", "mount/b"] {
            place.file(name, &[0; 8192]);
        }
        place.file("changes", updates.as_bytes());
        // Without a mapping, the same file is worked on, unless some processes cannot be looked into here.
        let unmapped = place.run("holes fill mount/b");
        let is_seen = !unmapped.stderr.contains("a lease does not show mappings");
        if is_seen {
            unmapped.succeeded();
        } else {
            println!("skipped: only refusals without a look are tried: {}", unmapped.stderr);
        }
        let Some(mapper) = Mapper::new(&place.path("mount/b")) else {
            return;
        };
        let ended = place.run(command);
        assert_ne!(ended.code, Some(0), "{command:?}: {}", ended.stderr);
        let told = [ended.stdout, ended.stderr].concat();
        assert!(!is_seen || told.contains("has it mapped"), "{command:?}: {told}");
        mapper.write();
        let found = place.read("mount/b");
        assert_eq!(&found[4096..4104], b"PRECIOUS", "{command:?}");
    }
}

#[test]
fn overlay_file_may_be_mapped_by_processes_that_proc_hides() {
    // Group 0 is shown all processes.
    const SCRIPT: &str = "mount -t proc -o hidepid=2 proc /proc && \
        exec setpriv --regid 65534 --clear-groups --bounding-set=-sys_ptrace -- \"$0\" \"$@\"";
    if !is_root() || !prepared("unshare", &["-m", "setpriv", "true"].map(AsRef::as_ref)) {
        return println!("skipped: there is no unshare or setpriv, or no mount namespace");
    }
    let place = Place::new();
    let Some(_mount) = overlay(&place) else { return };
    let file = place.file("mount/b", &[0; 8192]);
    let Some(mapper) = Mapper::new(&file) else { return };
    let mut command = place.command_of("unshare");
    command
        .args(["-m", "sh", "-c", SCRIPT])
        .arg(place.command().get_program());
    let ended = Ended::of(command.args(["holes", "dig", "mount/b"]).spawn().unwrap());
    if ended.stderr.contains("in a container") {
        return println!("skipped: {}", ended.stderr);
    }
    assert_contains(&ended.stderr, &["hidepid"]);
    mapper.write();
    assert_eq!(&fs::read(&file).unwrap()[4096..4104], b"PRECIOUS");
}

#[test]
fn update_replace_needs_leases_of_the_kernel() {
    let place = Place::new();
    place.file("changes", b"{\"offset\": 4, \"text\": \"AAAA\"}\n");
    // The call that asks for the lease is the only one that is made to fail.
    for number in 1..60 {
        let file = place.file("file", &[1; 8192]);
        let mut command = place.command_of("strace");
        let inject = format!("inject=fcntl:error=EINVAL:when={number}");
        command.args(["-f", "-qq", "-e", "trace=fcntl", "-e", &inject, "-o", "trace"]);
        command.arg(place.command().get_program());
        let Ok(child) = command
            .args(words("update file --from changes --safety replace"))
            .spawn()
        else {
            return println!("skipped: there is no strace");
        };
        let ended = Ended::of(child);
        let trace = fs::read_to_string(place.path("trace")).unwrap_or_default();
        let is_the_lease = |line: &str| line.contains("F_SETLEASE, F_RDLCK") && line.contains("INJECTED");
        if trace.lines().any(is_the_lease) {
            assert_contains(&ended.stderr, &["has no leases"]);
            assert_eq!(fs::read(&file).unwrap(), [1; 8192]);
            return;
        }
    }
    println!("skipped: strace cannot make the lease fail here");
}

#[test]
fn dupes_cache_trusts_no_other_file_system_on_the_device() {
    if !is_root() || !prepared("mksquashfs", &["-version".as_ref()]) {
        return println!("skipped: there is no mksquashfs");
    }
    let place = Place::new();
    place.directories("tree mount");
    place.file("tree/a", &vec![1; 200_000]);
    for last in [1_u8, 2] {
        let mut bytes = vec![1; 200_000];
        bytes[150_000] = last;
        place.file("tree/b", &bytes);
        let image = place.path("image");
        let _ = fs::remove_file(&image);
        let options = words("tree image -quiet -no-progress -all-time 1 -mkfs-time 1");
        Ended::by(place.command_of("mksquashfs").args(options)).succeeded();
        let Some(_mount) = Mount::image_again(&image, "ro", &place.path("mount")) else {
            return;
        };
        let groups = if last == 1 { "1 group" } else { "0 groups" };
        place.run("dupes --cache --cache-file digests mount").says(groups);
    }
}

#[test]
fn keep_rule_directory_means_what_is_below_it_however_written() {
    let place = Place::new();
    place.directories("t/keep/in");
    let absolute = place.path("t/keep").canonicalize().unwrap();
    let absolute = absolute.to_str().unwrap();
    let written = words("t/keep t/keep/ ./t/keep ./t//keep/. t/*/in/ t/keep/**");
    let written = [&written[..], &[absolute]].concat();
    for path in ["t", "t/", "t//", "t/.", "./t"] {
        for rule in &written {
            place.files("t/a t/keep/in/b", b"same");
            let rule = format!("path:{rule}");
            place.succeeds(("dupes --action remove --yes --keep", &rule, path));
            let left = ["t/keep/in/b", "t/a"].map(|name| place.path(name).exists());
            assert_eq!(left, [true, false], "{path} {rule}");
        }
    }
}

#[test]
fn keep_rule_or_pattern_without_match_stops_without_yes() {
    let place = Place::new();
    place.directories("t");
    place.files("t/a t/b", b"same");
    for wrong in [
        "--keep name:tpyo",
        "--keep path:t/tpyo",
        "--keep first --exclude tpyo",
        "--keep first --include tpyo",
    ] {
        let act = ("dupes --action remove t", wrong);
        place.run(act).failed_with(2, &["matches no"]);
        assert!(place.path("t/a").exists() && place.path("t/b").exists());
        place.run((act, "--yes")).failed_with(0, &["matches no"]);
        place.files("t/a t/b", b"same");
    }
}

#[test]
fn dupes_act_omits_steps_without_gain_and_counts_them() {
    let place = Place::new();
    place.directories("t/out");
    place.files("t/out/c t/out/d", b"same");
    place.directories("h");
    place.hard_link("t/out/d", "h/b");
    place.file("h/a", b"same");
    let ended = place.succeeds("dupes --action hardlink --keep name:a --yes h");
    ended.says("1 file left out");
    let inode = |name: &str| fs::metadata(place.path(name)).unwrap().ino();
    assert_eq!(inode("h/b"), inode("t/out/d"));
    place.run("dupes --isolate h").failed_with(2, &["several PATHs"]);
}

#[test]
fn dupes_and_cmp_compare_huge_sparse_files_by_their_data() {
    let place = Place::new();
    let Some(_mount) = Mount::tmpfs(&place.path("t"), "mode=700") else {
        return;
    };
    for name in ["t/a", "t/b", "t/c"] {
        place.sparse(name, (1 << 62) + 4096);
    }
    place.run("dupes t").says("3 files, 1 group");
    place.succeeds("cmp t/a t/b");
    // Their digests would take years.
    place.fails(1, "dupes --action remove --keep first --yes t");
}

#[test]
fn closed_standard_descriptors_are_errors() {
    let place = Place::new();
    place.file("empty", b"");
    place.file("file", b"123456");
    place.file("other", b"123457");
    let shell = |words: &str| {
        let words = words.replace('@', env!("CARGO_BIN_EXE_seekless"));
        Ended::by(place.command_of("sh").args(["-c", &words])).code
    };
    for (words, code) in [
        ("@ cmp -s empty - <&-", 2),
        ("@ update file <&-", 2),
        ("@ dupes --files-from - <&-", 2),
        ("@ dupes . >&-", 2),
        ("@ storage . >&-", 2),
        ("@ cmp file other >&-", 1),
        ("@ cmp -s file file >&-", 0),
        ("@ cmp -s empty - </dev/null", 0),
    ] {
        assert_eq!(shell(words), Some(code), "{words}");
    }
}

#[test]
fn holes_past_the_end_are_shown_and_dug_on_request() {
    for kind in ["ext4", "xfs", "btrfs", "tmpfs"] {
        let place = Place::new();
        let at = place.path("mount");
        // A tmpfs lists no extents.
        let lists_extents = kind != "tmpfs";
        let mount = if lists_extents {
            Mount::image(kind, 320 << 20, &place.file("image", b""), &at)
        } else {
            Mount::tmpfs(&at, "mode=700")
        };
        let Some(_mount) = mount else {
            continue;
        };
        let file = File::create(place.file("mount/f", b"abc")).unwrap();
        file.set_len(3).unwrap();
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, 0, 8 << 20).unwrap();
        file.sync_all().unwrap();
        drop(file);
        let shown = place.run("holes show --map mount/f").stdout;
        assert_eq!(shown.contains("past end"), lists_extents, "{kind}: {shown}");
        place.succeeds("holes dig mount/f");
        assert!(fs::metadata(place.path("mount/f")).unwrap().blocks() > 8000, "{kind}");
        place.succeeds("holes dig --past-end mount/f");
        let found = fs::metadata(place.path("mount/f")).unwrap();
        assert!(found.blocks() < 100 && found.len() == 3, "{kind}: {}", found.blocks());
    }
}

#[test]
fn update_of_a_mount_point_takes_neither_journal_nor_replace() {
    let place = Place::new();
    place.file("file", &[7; 9000]);
    place.file("point", b"");
    place.file("changes", b"{\"offset\": 5, \"text\": \"A\"}\n");
    if Ended::by(place.command_of("mount").args(["--bind", "file", "point"])).code != Some(0) {
        return println!("skipped: cannot mount a file here");
    }
    let outcomes = ["journal", "replace", "in-place"].map(|safety| {
        let ended = place.run(("update point --from changes --safety", safety));
        (ended.code, ended.stderr)
    });
    Ended::by(place.command_of("umount").arg("point")).succeeded();
    for (code, said) in &outcomes[..2] {
        assert!(*code == Some(2) && said.contains("is a mount point"), "{said}");
    }
    assert_eq!(outcomes[2].0, Some(0), "{}", outcomes[2].1);
}
