//! What a [`Ring`] promises, on files of the temporary directory. Without `io_uring`, the tests print that they are
//! skipped.

use std::os::unix::fs::FileExt;

use super::*;

const BLOCK: usize = 16 << 10;
const READ: RingRequest = RingRequest {
    is_read: true,
    offset: 0,
    range: 0..BLOCK,
    dontcache: false,
    is_synced: false,
};

fn read_at(offset: usize) -> RingRequest {
    let offset = offset as u64;
    RingRequest { offset, ..READ }
}

fn write(offset: u64, range: Range<usize>) -> RingRequest {
    RingRequest {
        is_read: false,
        offset,
        range,
        ..READ
    }
}

fn synced(write: RingRequest) -> RingRequest {
    let is_synced = true;
    RingRequest { is_synced, ..write }
}

fn ring(depth: u32) -> Option<Ring> {
    Ring::new(depth, BLOCK, 4096).unwrap().or_skip()
}

fn sample_file() -> (Arc<File>, Vec<u8>) {
    let content: Vec<u8> = (0..9 * BLOCK + 123).map(|n| (n % 253) as u8).collect();
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&content, 0).unwrap();
    (Arc::new(file), content)
}

#[test]
fn ring_reads_a_file_at_depth_four() {
    let Some(mut ring) = ring(4) else { return };
    let (file, content) = sample_file();
    let mut seen = vec![0; content.len()];
    let mut offsets = (0..content.len()).step_by(BLOCK);
    let mut at = [0; 4];
    for slot in 0..ring.depth() {
        at[slot as usize] = offsets.next().unwrap();
        ring.queue(slot, &file, &read_at(at[slot as usize])).unwrap();
    }
    assert_eq!(ring.in_flight(), 4);
    while ring.in_flight() > 0 {
        let Completed { slot, result } = ring.wait().unwrap();
        let (read, offset) = (result.unwrap(), at[slot as usize]);
        seen[offset..offset + read].copy_from_slice(&ring.buffer(slot)[..read]);
        if let Some(next) = offsets.next() {
            at[slot as usize] = next;
            ring.queue(slot, &file, &read_at(next)).unwrap();
        }
    }
    assert_eq!(seen, content);
    assert!(ring.calls() >= 3);
}

#[test]
fn ring_writes_and_reads_back_part_of_a_buffer() {
    let Some(mut ring) = ring(1) else { return };
    let file = Arc::new(tempfile::tempfile().unwrap());
    ring.buffer_mut(0)[100..105].copy_from_slice(b"hello");
    ring.queue(0, &file, &write(7, 100..105)).unwrap();
    assert_eq!(ring.wait().unwrap().result.unwrap(), 5);
    let mut behind = read_at(8);
    behind.range = BLOCK - 10..BLOCK;
    ring.queue(0, &file, &behind).unwrap();
    assert_eq!(ring.wait().unwrap().result.unwrap(), 4);
    assert_eq!(&ring.buffer(0)[BLOCK - 10..BLOCK - 6], b"ello");
}

#[test]
fn ring_linked_syncs_end_and_fail_with_their_writes() {
    let Some(mut ring) = ring(4) else { return };
    let file = Arc::new(tempfile::tempfile().unwrap());
    for _ in 0..3 {
        for slot in 0..4 {
            ring.buffer_mut(slot)[..4].copy_from_slice(b"four");
            let request = synced(write(u64::from(slot) * 4, 0..4));
            ring.queue(slot, &file, &request).unwrap();
        }
        let mut done: Vec<u32> = (0..4)
            .map(|_| ring.wait().map(|done| (done.result.unwrap(), done.slot).1).unwrap())
            .collect();
        done.sort_unstable();
        assert_eq!((done, ring.in_flight()), (vec![0, 1, 2, 3], 0));
    }
    assert_eq!(file.metadata().unwrap().len(), 16);
    let named = tempfile::NamedTempFile::new().unwrap();
    let unwritable = Arc::new(File::open(named.path()).unwrap());
    let (plain, synced) = (write(0, 0..10), synced(write(0, 0..10)));
    // A pipe takes bytes, but cannot be synced.
    let (_reader, pipe) = io::pipe().unwrap();
    let pipe = Arc::new(File::from(std::os::fd::OwnedFd::from(pipe)));
    for (file, request, reason) in [
        (&unwritable, &plain, libc::EBADF),
        (&unwritable, &synced, libc::EBADF),
        (&pipe, &synced, libc::EINVAL),
    ] {
        ring.queue(1, file, request).unwrap();
        let done = ring.wait().unwrap();
        assert_eq!((done.slot, done.result.unwrap_err().raw_os_error()), (1, Some(reason)));
        assert_eq!(ring.in_flight(), 0);
    }
}

#[test]
fn ring_uncached_requests_work_or_name_the_lack() {
    let Some(mut ring) = ring(1) else { return };
    let (file, content) = sample_file();
    let mut uncached = READ;
    uncached.dontcache = true;
    ring.queue(0, &file, &uncached).unwrap();
    match ring.wait().unwrap().result {
        Ok(read) => assert_eq!(ring.buffer(0)[..read], content[..read]),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
    }
}

#[test]
fn ring_misuse_is_an_error() {
    let invalid = io::ErrorKind::InvalidInput;
    for (depth, block) in [(0, BLOCK), (1, 0)] {
        assert_eq!(Ring::new(depth, block, 4096).unwrap_err().kind(), invalid);
    }
    let Some(mut ring) = ring(1) else { return };
    let (file, _) = sample_file();
    let mut refused = |slot, range| {
        let error = ring.queue(slot, &file, &RingRequest { range, ..READ }).unwrap_err();
        assert_eq!(error.kind(), invalid);
    };
    refused(1, 0..1);
    refused(0, 1..BLOCK + 1);
    refused(0, BLOCK..usize::MAX);
    assert_eq!(ring.wait().unwrap_err().kind(), invalid);
    ring.queue(0, &file, &READ).unwrap();
    assert_eq!(ring.queue(0, &file, &READ).unwrap_err().kind(), invalid);
    let reach = std::panic::AssertUnwindSafe(|| ring.buffer(0).len());
    assert!(std::panic::catch_unwind(reach).is_err());
}

#[test]
fn ring_dropped_while_busy_waits() {
    let (file, _) = sample_file();
    for _ in 0..20 {
        let Some(mut ring) = ring(8) else { return };
        for slot in 0..8 {
            ring.queue(slot, &file, &read_at(slot as usize * BLOCK)).unwrap();
        }
        ring.wait().unwrap();
    }
}

#[test]
fn ring_beyond_the_lock_limit_names_the_limit() {
    use rustix::process::{Resource, Rlimit, geteuid, getrlimit};
    let Rlimit {
        current: Some(limit), ..
    } = getrlimit(Resource::Memlock)
    else {
        return println!("skipped: this user may lock all memory");
    };
    if geteuid().is_root() || limit > 64 << 20 {
        return println!("skipped: this user may lock much memory");
    }
    match Ring::new(1, limit as usize + (1 << 20), 4096) {
        Ok(Support::Unavailable(reason)) => println!("skipped: {reason}"),
        Ok(Support::Available(_)) => panic!("the limit was not kept"),
        Err(error) => assert!(error.to_string().contains("ulimit -l"), "{error}"),
    }
}

#[test]
fn ring_reads_and_writes_by_buffers_that_were_exchanged() {
    let Some(mut ring) = ring(2) else { return };
    let (file, content) = sample_file();
    let mut first = None;
    for block in 0..9 {
        let slot = block as u32 % 2;
        ring.queue(slot, &file, &read_at(block * BLOCK)).unwrap();
        assert_eq!(ring.wait().unwrap().result.unwrap(), BLOCK);
        let full = ring.exchange(slot, Buffer::new(BLOCK, 4096).unwrap());
        assert_eq!(*full, content[block * BLOCK..][..BLOCK]);
        first.get_or_insert(full);
    }
    // The first block, written over the second.
    ring.exchange(0, first.unwrap());
    ring.queue(0, &file, &write(BLOCK as u64, 0..BLOCK)).unwrap();
    assert_eq!(ring.wait().unwrap().result.unwrap(), BLOCK);
    let mut found = vec![0; 2 * BLOCK];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found == [&content[..BLOCK], &content[..BLOCK]].concat());
}

#[test]
fn ring_refuses_ranges_past_a_shorter_buffer() {
    let Some(mut ring) = ring(1) else { return };
    let (file, _) = sample_file();
    ring.exchange(0, Buffer::new(BLOCK / 2, 4096).unwrap());
    assert_eq!(
        ring.queue(0, &file, &READ).unwrap_err().kind(),
        io::ErrorKind::InvalidInput
    );
    assert_eq!(ring.in_flight(), 0);
}
