//! Maps and the SIGBUS guard from outside: files that shrink under a map, and faults that do not concern the guard.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use seekless_sys::{Map, MapAdvice, MapMode, Support, guard_installed, install_guard, page_bytes};

const PAGES: usize = 64;

/// The bytes of the files and maps here.
fn whole() -> usize {
    PAGES * page_bytes()
}

/// The guard, and a lock on its table, because one test fills it.
fn guarded() -> MutexGuard<'static, ()> {
    static TABLE: Mutex<()> = Mutex::new(());
    let turn = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    install_guard().unwrap();
    install_guard().unwrap();
    assert!(guard_installed());
    turn
}

fn file_of_ones() -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&vec![1; whole()], 0).unwrap();
    file
}

fn map(file: &File, mode: MapMode) -> Map {
    Map::new(file, 0, whole(), mode).unwrap()
}

#[test]
fn map_shows_and_writes_its_range_and_nowhere_past_a_shrink() {
    let _turn = guarded();
    let file = file_of_ones();
    let map = map(&file, MapMode::ReadWrite);
    let bytes = map.bytes(0..whole());
    assert_eq!(bytes.count(1), whole() as u64);
    map.bytes_mut(10..12).copy_from(&[7, 8]);
    map.flush().unwrap();
    let mut found = [0; 4];
    file.read_exact_at(&mut found, 9).unwrap();
    assert_eq!(found, [1, 7, 8, 1]);
    assert!(!map.faulted());
    file.write_all_at(&[9], 3 * page_bytes() as u64).unwrap();
    let third = Map::new(&file, 3 * page_bytes() as u64, 100, MapMode::Read).unwrap();
    assert_eq!(third.bytes(0..100).count(9), 1);
    for (offset, len) in [(1, 100), (0, 0)] {
        let error = Map::new(&file, offset, len, MapMode::Read).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    file.set_len(page_bytes() as u64).unwrap();
    map.bytes_mut(0..whole()).copy_from(&vec![2; whole()]);
    assert!(map.faulted());
    map.flush().unwrap();
    assert_eq!(file.metadata().unwrap().len(), page_bytes() as u64);
    let mut first = vec![0; page_bytes()];
    file.read_exact_at(&mut first, 0).unwrap();
    assert!(first.iter().all(|&byte| byte == 2));
}

#[test]
fn map_of_a_shrunk_file_reads_zeros_and_says_so() {
    let _turn = guarded();
    let file = file_of_ones();
    let (short, other) = (map(&file, MapMode::Read), file_of_ones());
    let long = map(&other, MapMode::Read);
    file.set_len(10 * page_bytes() as u64).unwrap();
    assert_eq!(short.bytes(0..10 * page_bytes()).count(1), 10 * page_bytes() as u64);
    assert!(!short.faulted());
    let mut histogram = [0; 256];
    short.bytes(0..whole()).histogram(&mut histogram);
    assert!(short.faulted());
    assert_eq!(histogram[..2], [54 * page_bytes() as u64, 10 * page_bytes() as u64]);
    assert_eq!(long.bytes(0..whole()).count(1), whole() as u64);
    assert!(!long.faulted());
    drop(short);
    assert!(!map(&other, MapMode::Read).faulted(), "the flag goes with its map");
    let file = file_of_ones();
    let map = map(&file, MapMode::Read);
    file.set_len(page_bytes() as u64).unwrap();
    for advice in [MapAdvice::Sequential, MapAdvice::WillNeed, MapAdvice::PopulateRead] {
        map.advise(advice).unwrap();
    }
    assert!(!map.faulted());
    map.bytes(page_bytes()..2 * page_bytes())
        .copy_to(&mut vec![0; page_bytes()]);
    assert!(map.faulted());
}

#[test]
fn map_faults_of_several_threads_at_a_page_all_go_on() {
    const THREADS: usize = 4;
    let _turn = guarded();
    for round in 0..200 {
        let file = file_of_ones();
        let map = map(&file, MapMode::Read);
        let cut = round % PAGES;
        file.set_len((cut * page_bytes()) as u64).unwrap();
        let start = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    assert_eq!(map.bytes(0..whole()).count(1), (cut * page_bytes()) as u64);
                    assert!(map.faulted());
                });
            }
        });
    }
}

#[test]
fn map_populate_brings_the_whole_file_in() {
    let _turn = guarded();
    let file = file_of_ones();
    file.sync_all().unwrap();
    seekless_sys::drop_from_cache(&file).unwrap();
    let map = map(&file, MapMode::Read);
    let Support::Available(()) = map.advise(MapAdvice::PopulateRead).unwrap() else {
        return println!("skipped: nothing populates maps here");
    };
    let Support::Available(found) = seekless_sys::residency(&file).unwrap() else {
        return println!("skipped: residency is unknown here");
    };
    assert_eq!(found.resident_bytes, found.total_bytes);
}

#[test]
fn maps_beyond_the_slots_are_refused_until_some_go() {
    let _turn = guarded();
    let file = file_of_ones();
    let mut maps = Vec::new();
    let error = loop {
        match Map::new(&file, 0, page_bytes(), MapMode::Read) {
            Ok(map) => maps.push(map),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), maps.len()), (ErrorKind::Unsupported, 128));
    maps.pop();
    map(&file, MapMode::Read);
}

#[test]
#[should_panic(expected = "not within a map")]
fn map_access_past_its_end_panics() {
    let _turn = guarded();
    let _ = map(&file_of_ones(), MapMode::Read).bytes(0..whole() + 1);
}

#[test]
#[should_panic(expected = "for reading")]
fn map_for_reading_gives_nothing_to_write() {
    let _turn = guarded();
    let _ = map(&file_of_ones(), MapMode::Read).bytes_mut(0..1);
}

#[test]
fn fault_outside_of_all_maps_still_ends_the_process() {
    if is_child() {
        let _turn = guarded();
        let _map = map(&file_of_ones(), MapMode::Read);
        fault_elsewhere();
    }
    let status = run_as_child("fault_outside_of_all_maps_still_ends_the_process");
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
}

#[test]
fn fault_outside_of_all_maps_goes_to_the_earlier_handler() {
    extern "C" fn exit_42(_signal: libc::c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
        // SAFETY: _exit(2) is async-signal-safe.
        unsafe { libc::_exit(42) };
    }
    if is_child() {
        // SAFETY: the handler only ends the process; an all-zero `sigaction` is valid.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = exit_42;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
        let _turn = guarded();
        fault_elsewhere();
    }
    let status = run_as_child("fault_outside_of_all_maps_goes_to_the_earlier_handler");
    assert_eq!(status.code(), Some(42), "{status}");
}

/// Reads a page past the end of a file through a mapping that the guard does not know.
fn fault_elsewhere() -> ! {
    let file = file_of_ones();
    file.set_len(0).unwrap();
    // SAFETY: the kernel chooses the address; the read faults, which is the purpose.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            page_bytes(),
            libc::PROT_READ,
            libc::MAP_SHARED,
            std::os::fd::AsRawFd::as_raw_fd(&file),
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        page.cast::<u8>().read_volatile();
    }
    println!("the fault did not come");
    std::process::exit(0);
}

const CHILD: &str = "SEEKLESS_SYS_TEST_CHILD";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn run_as_child(test: &str) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap()
        .status
}
