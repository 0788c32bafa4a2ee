//! Every command that reads or writes much ends soon after a signal.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::place::{Mount, Place, is_long, is_root};

const SPARSE_BYTES: u64 = 1 << 40;
/// A file of zeros, if its blocks are shared, and one that takes its space.
const SHARED_BYTES: u64 = 8 << 30;
const OWN_BYTES: u64 = 128 << 20;

/// Command lines for the file `f` of the trees `one` and `other`. Those that change a file come last.
const COMMANDS: [&str; 32] = [
    "cmp one/f other/f",
    "cmp -l one/f other/f",
    "cmp -r one other",
    "cmp -r --metadata one other",
    "cp --reflink=never one/f copy",
    "cp --reflink=never --verify one/f copy",
    "cp --reflink=never --fsync one/f copy",
    "cp --reflink=never --durable one/f copy",
    "cp --sparse always one/f copy",
    "cp --sparse never one/f copy",
    "cp --compare one/f other/f",
    "cp --checksums sums.b3 one/f copy",
    "cp --checksums sums.sha256 one/f copy",
    "holes show --scan one/f",
    "holes dig --dry-run one/f",
    "cache show one/f",
    "cache warm one/f",
    "cache lock one/f",
    "cache drop one/f",
    "advise read one/f",
    "storage one",
    "dupes one other",
    "dupes --action reflink --keep first --yes one other",
    "dupes --cache --cache-file digests one other",
    "dupes catalogue --digest all -o catalogue one",
    "bench read --file one/f --rounds 3",
    "bench read --file one/f --cache warm --methods read/sync,block=1M --rounds 1",
    "bench read --size 1G --rounds 3",
    "update other/f --from updates",
    "update other/f --safety replace --from updates",
    "holes dig --verify other/f",
    "holes dig other/f",
];

/// Makes a file of zeros in place of a file. Returns its size.
fn make_zeros(path: &Path) -> u64 {
    fs::write(path, vec![0; OWN_BYTES as usize]).unwrap();
    let source = File::open(path).unwrap();
    source.sync_all().unwrap();
    let shared = path.with_extension("shared");
    let copy = File::create(&shared).unwrap();
    let is_shared = seekless_sys::clone_file(&source, &copy).is_ok_and(|cloned| cloned.available().is_some());
    if !is_shared {
        fs::remove_file(shared).unwrap();
        return OWN_BYTES;
    }
    let mut at = OWN_BYTES;
    while at < SHARED_BYTES {
        let length = OWN_BYTES as usize;
        // Where a whole file can be shared, this shares its blocks, too.
        rustix::fs::copy_file_range(&source, Some(&mut 0), &copy, Some(&mut at), length).unwrap();
    }
    fs::rename(shared, path).unwrap();
    SHARED_BYTES
}

/// Makes the trees of a place.
fn make_trees(root: &Path, make: &dyn Fn(&Path) -> u64) {
    let bytes = ["one", "other"].map(|tree| {
        fs::create_dir(root.join(tree)).unwrap();
        make(&root.join(tree).join("f"))
    });
    // Few, because the device must have them before a command ends.
    let mut updates = b"SKLSUPDT\x01\0\0\0".to_vec();
    for at in (0..bytes[1]).step_by((bytes[1] / 16) as usize) {
        updates.extend([&at.to_le_bytes()[..], &1_u32.to_le_bytes(), b"x"].concat());
    }
    fs::write(root.join("updates"), updates).unwrap();
}

/// How long a command takes to end after a signal that comes after a delay.
fn time_to_end(place: &Place, root: &Path, line: &str, delay: Duration) -> Duration {
    let mut command = place.command();
    command.args(line.split(' ')).current_dir(root);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(delay);
    let signalled = Instant::now();
    if child.try_wait().unwrap().is_none() {
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    }
    while child.try_wait().unwrap().is_none() && signalled.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let took = signalled.elapsed();
    let _ = child.kill();
    child.wait().unwrap();
    // What an interrupted copy left would be resumed.
    for entry in fs::read_dir(root).unwrap().map(|entry| entry.unwrap()) {
        if !["one", "other", "updates"]
            .iter()
            .any(|name| entry.file_name() == *name)
        {
            let path = entry.path();
            fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)).unwrap();
        }
    }
    took
}

/// Others would take the time.
mod alone {
    use super::*;

    #[test]
    fn signal_ends_every_command_soon_however_large_a_file_is() {
        let place = Place::new();
        place.directories("sparse zeros");
        let (sparse, zeros) = (place.path("sparse"), place.path("zeros"));
        let image = place.directory().parent().unwrap().join("image");
        let _disk = is_root().then(|| Mount::image("xfs", 3 << 30, &image, &zeros));
        make_trees(&zeros, &make_zeros);
        make_trees(&sparse, &|path| {
            File::create(path).unwrap().set_len(SPARSE_BYTES).unwrap();
            SPARSE_BYTES
        });
        let delays: &[u64] = if is_long() {
            &[20, 100, 300, 1000, 2500]
        } else {
            &[50, 250]
        };
        let mut late = Vec::new();
        for root in [&sparse, &zeros] {
            for line in COMMANDS {
                for delay in delays.iter().map(|ms| Duration::from_millis(*ms)) {
                    // Waiting for the device takes the time of another process now and then.
                    let times = (0..3).map(|_| time_to_end(&place, root, line, delay));
                    let is_late = |took: &Duration| *took > Duration::from_millis(500);
                    let times: Vec<Duration> = times.take_while(is_late).collect();
                    if times.len() == 3 {
                        late.push((root, line, delay, times));
                    }
                }
            }
        }
        assert!(late.is_empty(), "{late:#?}");
    }
}
