//! What a [`HeadRing`] promises. Without `io_uring`, the tests print that they are skipped.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{CWD, Mode, mknodat};

use super::*;

const HEAD: usize = 4 << 10;
const FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn ring(files: u32) -> Option<HeadRing> {
    HeadRing::new(files, HEAD).or_skip()
}

/// A directory of files of these lengths, named by their numbers, all in memory.
fn directory(lengths: &[usize]) -> (tempfile::TempDir, File) {
    let place = tempfile::tempdir().unwrap();
    for (number, length) in lengths.iter().enumerate() {
        fs::write(place.path().join(number.to_string()), vec![number as u8; *length]).unwrap();
    }
    let open = File::open(place.path()).unwrap();
    (place, open)
}

#[test]
fn head_ring_reads_what_std_reads_and_closes_earlier_files() {
    let Some(mut ring) = ring(5) else { return };
    let lengths = [0, 1, HEAD - 1, HEAD, 3 * HEAD, 17, 4000];
    let (_place, open) = directory(&lengths);
    let names: Vec<String> = (0..lengths.len()).map(|number| number.to_string()).collect();
    for _ in 0..3 {
        for (first, names) in (0..).step_by(5).zip(names.chunks(5)) {
            let files: Vec<_> = names
                .iter()
                .map(|name| (open.as_fd(), name.as_bytes(), FLAGS))
                .collect();
            ring.read(&files, HEAD).unwrap();
            for (file, length) in lengths[first..].iter().take(5).enumerate() {
                assert_eq!(ring.head(file).unwrap(), vec![(first + file) as u8; *length.min(&HEAD)]);
            }
        }
        assert_eq!(ring.head(2), None, "the second call had two files");
    }
}

#[test]
fn head_ring_has_no_head_of_what_cannot_be_opened() {
    let Some(mut ring) = ring(8) else { return };
    let (place, open) = directory(&[5]);
    let fifo = place.path().join("fifo");
    mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let mut both = File::options().read(true).write(true).open(&fifo).unwrap();
    io::Write::write_all(&mut both, b"for somebody else").unwrap();
    std::os::unix::fs::symlink("0", place.path().join("link")).unwrap();
    let names: [&[u8]; 6] = [b"none", b"fifo", b"link", b"0", b".", b"0\0behind a zero"];
    let files = names.map(|name| (open.as_fd(), name, FLAGS));
    ring.read(&files, HEAD).unwrap();
    let heads: Vec<_> = (0..names.len()).map(|file| ring.head(file).map(<[u8]>::len)).collect();
    assert_eq!(heads, [None, None, None, Some(5), None, None]);
    let mut left = [0; 17];
    both.read_exact(&mut left).unwrap();
    assert_eq!(&left, b"for somebody else");
    assert!(ring.read(&[files[3]; 9], HEAD).is_err());
}

#[test]
fn head_ring_descriptor_stays_open_when_its_files_are_closed() {
    let Some(mut ring) = ring(2) else { return };
    let (place, open) = directory(&[7, 9]);
    ring.read(&[(open.as_fd(), b"1", FLAGS)], usize::MAX).unwrap();
    let [Some(descriptor), None, None] = &mut ring.descriptors([0, 1, 2].into_iter()).unwrap()[..] else {
        return println!("skipped: before Linux 6.8");
    };
    let descriptor = descriptor.try_clone().unwrap();
    drop(ring);
    let mut file = File::from(descriptor);
    let listed = fs::metadata(place.path().join("1")).unwrap();
    assert_eq!(file.metadata().unwrap().ino(), listed.ino());
    let mut content = Vec::new();
    file.read_to_end(&mut content).unwrap();
    assert_eq!(content, [1; 9]);
}

#[test]
fn head_ring_file_is_open_until_it_is_closed() {
    let Some(mut ring) = ring(2) else { return };
    let (place, open) = directory(&[7]);
    let file = File::open(place.path().join("0")).unwrap();
    let is_open_elsewhere = || {
        let taken = crate::take_lease(&file, crate::LeaseKind::Exclusive);
        crate::end_lease(&file);
        taken.is_err()
    };
    assert!(!is_open_elsewhere());
    ring.read(&[(open.as_fd(), b"0", FLAGS)], usize::MAX).unwrap();
    assert!(is_open_elsewhere());
    ring.close().unwrap();
    assert!(!is_open_elsewhere());
    assert_eq!(ring.head(0), None);
}
