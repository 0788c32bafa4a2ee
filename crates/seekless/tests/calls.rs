//! The calls, readers and writers do what std does, by whichever method, and say so.

use std::env;
use std::fs;
use std::io::{BufRead, Cursor, ErrorKind as IoErrorKind, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use seekless::{
    Batch, Context, Durability, ErrorKind, FileRange, Operation, Options, PlanRequest, ReasonKind, Safety, Stop,
    Verdict,
};

/// Methods of reading: one that the calling thread does, and some for which another reads ahead.
const READS: [&str; 5] = [
    "read/sync,block=64K",
    "read/double-buffer,block=256K",
    "read/sync,block=1M,direct",
    "read/io_uring,depth=4,block=512K",
    "read/io_uring,depth=4,block=16K,direct",
];

/// Bytes that are nowhere the same for long.
fn sample(bytes: usize) -> Vec<u8> {
    let mut random = 1_u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// Bytes, and a file with them.
fn file_of(directory: &tempfile::TempDir, bytes: usize) -> (std::path::PathBuf, Vec<u8>) {
    let (path, bytes) = (directory.path().join(bytes.to_string()), sample(bytes));
    fs::write(&path, &bytes).unwrap();
    (path, bytes)
}

#[test]
fn reader_gives_what_a_cursor_gives_wherever_it_seeks() {
    let directory = tempfile::tempdir().unwrap();
    for size in [0, 1, 70_000, 5 << 20] {
        let (path, bytes) = file_of(&directory, size);
        for method in READS.map(Some).into_iter().chain([None]) {
            let options = method.map_or(Options::new(), |method| Options::new().by(method).unwrap());
            let mut reader = match options.reader(&path) {
                Ok(reader) => reader,
                Err(error) => panic!("{method:?}: {error}"),
            };
            let mut expected = Cursor::new(&bytes);
            let mut draws = sample(60).into_iter();
            'draws: while let (Some(kind), Some(amount)) = (draws.next(), draws.next()) {
                let amount = usize::from(amount) * size / 200 + 1;
                let to = [
                    SeekFrom::Start(amount as u64),
                    SeekFrom::Current(-((amount / 3).cast_signed() as i64)),
                    SeekFrom::End(-((amount / 2).cast_signed() as i64)),
                ];
                if kind < 90 {
                    let to = to[usize::from(kind % 3)];
                    let moved = [reader.seek(to), expected.seek(to)].map(|moved| moved.map_err(|error| error.kind()));
                    assert_eq!(moved[0], moved[1], "{to:?}");
                    continue;
                }
                let mut read = [vec![0; amount], vec![0; amount]];
                let [own, other] = &mut read;
                let mut done = 0;
                while done < own.len() {
                    match reader.read(&mut own[done..]) {
                        Ok(0) => break,
                        Ok(bytes) => done += bytes,
                        Err(error) if method.is_some_and(|method| method.contains("direct")) => {
                            // Not every file system of a test has direct I/O.
                            let words = error.to_string();
                            assert!(
                                words.contains("not available") && !words.contains("must start"),
                                "{error}"
                            );
                            break 'draws;
                        }
                        Err(error) => panic!("{method:?}: {error}"),
                    }
                }
                own.truncate(done);
                let done = expected.read(other).unwrap();
                other.truncate(done);
                assert!(
                    own == other,
                    "{method:?}, {size} bytes, {amount} at {}",
                    expected.position()
                );
            }
        }
    }
}

#[test]
fn reader_ends_by_a_stop_and_at_a_file_that_shrank() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = file_of(&directory, 5 << 20);
    let stop = Stop::default();
    let mut reader = Options::new().stop(&stop).by(READS[0]).unwrap().reader(&path).unwrap();
    let first = reader.fill_buf().unwrap().len();
    reader.consume(first);
    stop.stop();
    assert!(reader.fill_buf().unwrap_err().to_string().contains("stopped after"));
    for method in READS {
        fs::write(&path, sample(20 << 20)).unwrap();
        let mut reader = Options::new().by(method).unwrap().reader(&path).unwrap();
        if reader.read_exact(&mut [0; 10]).is_err() {
            println!("skipped: {method} is unavailable");
            continue;
        }
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(3 << 20).unwrap();
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("shrank"), "{method}: {error}");
        // The error stays one, wherever it goes on.
        for position in [reader.stream_position().unwrap(), 0, 3 << 20] {
            reader.seek(SeekFrom::Start(position)).unwrap();
            let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
            assert!(
                error.to_string().contains("shrank"),
                "{method} from {position}: {error}"
            );
        }
    }
    assert_eq!(
        Options::new().reader(directory.path()).unwrap_err().kind(),
        ErrorKind::NotRegular
    );
}

#[test]
fn reader_stays_with_the_file_that_it_opened() {
    let directory = tempfile::tempdir().unwrap();
    for method in READS {
        let (path, bytes) = file_of(&directory, 20 << 20);
        let mut reader = Options::new().by(method).unwrap().reader(&path).unwrap();
        let mut read = vec![0; 1 << 20];
        if reader.read_exact(&mut read).is_err() {
            println!("skipped: {method} is unavailable");
            continue;
        }
        reader.seek(SeekFrom::Start(10 << 20)).unwrap();
        let other = directory.path().join("other");
        fs::write(&other, vec![7; 20 << 20]).unwrap();
        fs::rename(&other, &path).unwrap();
        read.clear();
        reader.read_to_end(&mut read).unwrap();
        assert!(read == bytes[10 << 20..], "{method}");
        fs::remove_file(&path).unwrap();
        reader.seek(SeekFrom::Start(3)).unwrap();
        read.clear();
        reader.read_to_end(&mut read).unwrap();
        assert!(read == bytes[3..], "{method}");
    }
}

#[test]
fn reader_has_no_position_that_a_file_cannot_have() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = file_of(&directory, 5000);
    for method in READS {
        let mut reader = Options::new().by(method).unwrap().reader(&path).unwrap();
        assert_eq!(
            reader.seek(SeekFrom::Start(1 << 63)).unwrap_err().kind(),
            IoErrorKind::InvalidInput
        );
        assert_eq!(reader.seek(SeekFrom::Start((1 << 63) - 1)).unwrap(), (1 << 63) - 1);
        match reader.read(&mut [0; 10]) {
            Ok(bytes) => assert_eq!(bytes, 0, "{method}"),
            Err(error) => assert!(error.to_string().contains("not available"), "{method}: {error}"),
        }
    }
}

#[test]
fn writer_leaves_the_bytes_that_it_took_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    for (number, size) in [0, 1, 8 << 20, (8 << 20) + 1, 70 << 20].into_iter().enumerate() {
        for durability in [Durability::None, Durability::Fsync] {
            let (path, bytes) = (directory.path().join(format!("{number}-{durability}")), sample(size));
            let options = Options::new().durability(durability);
            let mut writer = options.writer(&path).unwrap();
            for piece in bytes.chunks(1_234_567) {
                writer.write_all(piece).unwrap();
            }
            let done = writer.finish().unwrap();
            assert!(fs::read(&path).unwrap() == bytes && done.bytes == size as u64);
            assert_eq!(
                done.method.to_string().contains("fsync"),
                durability == Durability::Fsync
            );
            assert_eq!(options.writer(&path).unwrap_err().os_error(), Some(17));
            let mut writer = options.overwrite(true).writer(&path).unwrap();
            writer.write_all(b"short").unwrap();
            writer.flush().unwrap();
            drop(writer);
            assert_eq!(fs::read(&path).unwrap(), b"short");
        }
    }
}

#[test]
fn writer_by_a_mapping_leaves_the_bytes_that_it_took() {
    Context::allow_mapping().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (path, old) = file_of(&directory, 30 << 20);
    let bytes = sample(20 << 20);
    for (to, overwrites) in [(directory.path().join("new"), false), (path, true)] {
        for method in ["write/mmap", "write/mmap,block=64K,preallocate=truncate,fsync"] {
            let options = Options::new().by(method).unwrap().overwrite(overwrites);
            let mut writer = options.writer(&to).unwrap();
            writer.write_all(&bytes[..12_345]).unwrap();
            writer.flush().unwrap();
            writer.write_all(&bytes[12_345..]).unwrap();
            assert_eq!(writer.finish().unwrap().bytes, bytes.len() as u64);
            assert!(fs::read(&to).unwrap() == bytes, "{method}");
            if overwrites {
                fs::write(&to, &old).unwrap();
            } else {
                fs::remove_file(&to).unwrap();
            }
        }
    }
}

#[test]
fn writer_that_is_stopped_removes_its_new_file_and_does_not_finish() {
    let directory = tempfile::tempdir().unwrap();
    let (path, stop) = (directory.path().join("file"), Stop::default());
    let mut writer = Options::new().stop(&stop).writer(&path).unwrap();
    writer.write_all(&vec![1; 20 << 20]).unwrap();
    stop.stop();
    let failed = (0..60).find_map(|_| writer.write_all(&vec![1; 1 << 20]).err());
    let failed = failed.unwrap();
    assert!(
        failed.to_string().contains("stopped after") && !path.exists(),
        "{failed}"
    );
    assert!(writer.write_all(&vec![1; 9 << 20]).is_err() || writer.flush().is_err());
    let error = writer.finish().unwrap_err();
    assert!(error.to_string().contains("an earlier write failed"), "{error}");
    let mut writer = Options::new().stop(&stop).writer(&path).unwrap();
    writer.write_all(b"little").unwrap();
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Stopped);
    assert!(!path.exists());
}

#[test]
fn writer_that_fails_leaves_another_file_of_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let (path, stop) = (directory.path().join("file"), Stop::default());
    let mut writer = Options::new().stop(&stop).writer(&path).unwrap();
    writer.write_all(b"bytes").unwrap();
    fs::rename(&path, directory.path().join("moved")).unwrap();
    fs::write(&path, b"precious").unwrap();
    stop.stop();
    writer.finish().unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn writer_refuses_at_once_what_it_cannot_do() {
    let directory = tempfile::tempdir().unwrap();
    let (path, bytes) = file_of(&directory, 5000);
    for method in ["write/sync,block=1M,direct", "write/sync,write-through"] {
        let refused = Options::new().by(method).unwrap().overwrite(true).writer(&path);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let made = Command::new("mkfifo").arg(directory.path().join("fifo")).status();
    if made.is_ok_and(|made| made.success()) {
        let refused = Options::new().overwrite(true).writer(directory.path().join("fifo"));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotRegular);
    }
    for path in [directory.path(), "/dev/null".as_ref()] {
        let refused = Options::new().overwrite(true).writer(path);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotRegular);
    }
}

#[test]
fn stop_before_a_call_ends_it_as_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let stop = Stop::default();
    stop.stop();
    for size in [100, 40 << 20] {
        let (path, bytes) = file_of(&directory, size);
        let (options, other) = (Options::new().stop(&stop), directory.path().join("other"));
        fs::write(&other, &bytes).unwrap();
        let kinds = [
            options.read_to_vec(&path).map(|_| ()),
            options.read_into(&path, &mut vec![0; size]).map(|_| ()),
            options.compare(&path, &other).map(|_| ()),
            options.copy(&path, directory.path().join("copy")).map(|_| ()),
            options.write(directory.path().join("new"), &bytes).map(|_| ()),
        ];
        for (number, done) in kinds.into_iter().enumerate() {
            assert_eq!(
                done.map_err(|error| error.kind()),
                Err(ErrorKind::Stopped),
                "call {number}, {size} B"
            );
        }
        for safety in [Safety::InPlace, Safety::Journal, Safety::Replace] {
            let mut batch = Batch::new();
            batch.push(10, b"changed").unwrap();
            let done = options.safety(safety).update(&path, batch);
            assert_eq!(done.unwrap_err().kind(), ErrorKind::Stopped, "{safety:?}, {size} B");
            assert!(fs::read(&path).unwrap() == bytes);
        }
        fs::remove_file(&path).unwrap();
        fs::remove_file(&other).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn stop_ends_reads_at_random_too() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = file_of(&directory, 40 << 20);
    for method in [
        "read/sync,block=128K,access=random",
        "read/posix-aio,block=128K,access=random",
        "read/io_uring,depth=4,block=128K,access=random",
        "read/threads=2,block=128K,access=random",
    ] {
        let (stop, told) = (Stop::default(), Mutex::new(Vec::new()));
        let half = |done_bytes: u64, of_bytes: u64| {
            told.lock().unwrap().push((done_bytes, of_bytes));
            if done_bytes > of_bytes / 3 {
                stop.stop();
            }
        };
        let options = Options::new().by(method).unwrap().progress(&half).stop(&stop);
        match options.read_to_vec(&path) {
            Err(error) if error.kind() == ErrorKind::Unavailable => println!("skipped: {error}"),
            done => assert_eq!(done.unwrap_err().kind(), ErrorKind::Stopped, "{method}"),
        }
        let told = told.lock().unwrap();
        assert!(
            told.iter()
                .all(|&(done_bytes, of_bytes)| done_bytes < of_bytes && of_bytes == 40 << 20),
            "{told:?}"
        );
    }
}

#[test]
fn prepared_does_many_files_and_refuses_another_operation() {
    let directory = tempfile::tempdir().unwrap();
    let files = [3, 100_000, 5 << 20].map(|size| file_of(&directory, size));
    for options in [
        Options::new(),
        Options::new().threads(1),
        Options::new().by(READS[1]).unwrap(),
    ] {
        let prepared = options.prepare(Operation::Read).unwrap();
        std::thread::scope(|scope| {
            for (path, bytes) in files.iter().chain(&files) {
                let prepared = &prepared;
                scope.spawn(move || {
                    assert!(prepared.read_to_vec(path).unwrap().value == *bytes);
                    let mut memory = vec![MaybeUninit::uninit(); bytes.len()];
                    let done = prepared.read_into_uninit(path, &mut memory).unwrap();
                    assert_eq!(done.bytes, bytes.len() as u64);
                    let mut seen = Vec::new();
                    let take = |_: u64, piece: &[u8]| {
                        seen.extend_from_slice(piece);
                        ControlFlow::Continue(())
                    };
                    assert!(prepared.read(path, take).unwrap().value.is_continue());
                    assert!(seen == *bytes);
                });
            }
        });
        assert_eq!(
            prepared.compare(&files[0].0, &files[0].0).unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
    let wrong = Options::new().by(READS[0]).unwrap().prepare(Operation::Write);
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn outcome_says_how_much_by_which_method_and_why() {
    let directory = tempfile::tempdir().unwrap();
    let (path, bytes) = file_of(&directory, 3 << 20);
    let to = directory.path().join("to");
    let copied = seekless::copy(&path, &to).unwrap();
    assert!(copied.bytes == bytes.len() as u64 && copied.elapsed > std::time::Duration::ZERO);
    assert!(copied.method.to_string().starts_with("copy/") && !copied.reason.to_string().is_empty());
    assert_eq!(seekless::compare(&path, &to).unwrap().value, Verdict::Equal);
    let named = Options::new()
        .by("copy/sync")
        .unwrap()
        .overwrite(true)
        .copy(&path, &to)
        .unwrap();
    assert_eq!(named.reason.kind(), ReasonKind::Asked);
    let little = seekless::read_to_vec(FileRange::whole(&path).range(5..9)).unwrap();
    assert_eq!(
        (little.reason.kind(), little.value.as_slice()),
        (ReasonKind::Little, &bytes[5..9])
    );
    let mut batch = Batch::new();
    batch.push(7, b"changed").unwrap();
    let request = PlanRequest::Update(&path, &batch);
    assert!(
        Options::new()
            .plan(&request)
            .unwrap()
            .method
            .to_string()
            .starts_with("update/")
    );
    let updated = Options::new().safety(Safety::Journal).update(&path, batch).unwrap();
    assert_eq!(updated.bytes, 7);
    assert_eq!(&fs::read(&path).unwrap()[7..14], b"changed");
    let end = seekless::compare(&path, FileRange::whole(&to).range(..9)).unwrap();
    assert_eq!(end.value, Verdict::Differ { offset: 7 });
}

#[test]
fn plan_with_a_profile_that_does_not_fit_measures_itself() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = file_of(&directory, 2 << 20);
    for context in [
        Context::new(),
        Context::without_profiles(),
        Context::with_profile("/no/such/profile"),
    ] {
        let plan = Options::new()
            .context(&context)
            .plan(&PlanRequest::Read(FileRange::whole(&path)))
            .unwrap();
        let (low, high) = plan.bounds;
        assert!(low <= plan.predicted && plan.predicted <= high, "{plan:?}");
    }
}

#[test]
fn file_that_is_longer_than_memory_is_an_error() {
    // Otherwise the system may promise any amount of memory.
    let is_promised = fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.trim() == "1");
    let file = tempfile::tempfile().unwrap();
    if is_promised || file.set_len(1 << 43).is_err() {
        println!("skipped: no file is too long for memory");
        return;
    }
    for by in ["read/planned", "read/sync,block=64K"] {
        let error = Options::new().by(by).unwrap().read_to_vec(FileRange::of_file(&file));
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::System);
        assert_eq!(std::io::Error::from(error).kind(), IoErrorKind::OutOfMemory);
    }
}

#[test]
fn plan_of_a_process_that_may_not_write_long_files_does_not_end_it() {
    const PATH: &str = "SEEKLESS_TEST_LIMITED";
    if let Some(path) = env::var_os(PATH) {
        let (from, to) = (FileRange::whole(&path), FileRange::whole(".new"));
        for request in [
            PlanRequest::Read(from.clone()),
            PlanRequest::Write(to.clone(), 1 << 20),
            PlanRequest::Copy(from, to),
        ] {
            Options::new().plan(&request).unwrap();
        }
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = file_of(&directory, 1 << 20);
    let itself = "ulimit -f 0 && exec \"$0\" --exact plan_of_a_process_that_may_not_write_long_files_does_not_end_it";
    let mut limited = Command::new("sh");
    limited.args(["-c", itself]).arg(env::current_exe().unwrap());
    limited.env(PATH, path).current_dir(&directory).stdout(Stdio::null());
    let status = limited.status().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn error_becomes_one_of_std_with_its_kind() {
    let error = seekless::read_to_vec("/no/such/file").unwrap_err();
    assert_eq!((error.kind(), error.os_error()), (ErrorKind::System, Some(2)));
    let error = std::io::Error::from(error);
    assert_eq!(error.kind(), IoErrorKind::NotFound);
    assert!(error.to_string().contains("/no/such/file"), "{error}");
}
