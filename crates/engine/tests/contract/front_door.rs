//! The calls that plan and do: each does what its method alone does, and says which it was.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;

use seekless_engine::update::{Batch, Safety};
use seekless_engine::{
    Choice, Comparer, Copier, Destination, Error, FileRange, IoOptions, Method, Operation, Reader, Verdict, Writer,
};

use super::consumers::in_order;
use super::watches::names;
use super::{directories, file_of, of_these, sample};

const SIZES: [usize; 5] = [0, 1, 4097, 3 << 20, 17 << 20];

fn asked(method: &str) -> Method {
    method.parse().unwrap()
}

fn end_if(is_end: bool) -> ControlFlow<()> {
    if is_end {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// A batch of updates with the same bytes.
fn batch_of(offsets: impl IntoIterator<Item = u64>, bytes: &[u8]) -> Batch {
    let mut batch = Batch::new();
    for offset in offsets {
        batch.push(offset, bytes).unwrap();
    }
    batch
}

#[test]
fn planned_calls_do_what_std_does_and_say_how() {
    for directory in directories() {
        for size in SIZES {
            let bytes = sample(size);
            let [source, copy, written] = ["source", "copy", "written"].map(|name| directory.path().join(name));
            fs::write(&source, &bytes).unwrap();
            let mut seen = Vec::new();
            let read = IoOptions::new().read(&source, in_order(&mut seen)).unwrap();
            assert!(seen == bytes && read.bytes == size as u64);
            assert_eq!(read.method.operation(), Operation::Read);
            let mut memory = vec![0; size];
            let filled = IoOptions::new().read_into(&source, &mut memory[..]).unwrap();
            assert!(memory == bytes && filled.bytes == size as u64);
            let copied = IoOptions::new().copy(&source, &copy).unwrap();
            assert!(fs::read(&copy).unwrap() == bytes);
            assert_eq!(copied.method.operation(), Operation::Copy);
            let wrote = IoOptions::new().write(&written, &bytes).unwrap();
            assert!(fs::read(&written).unwrap() == bytes);
            assert_eq!(wrote.method.operation(), Operation::Write);
            let compared = IoOptions::new().compare(&copy, &written).unwrap();
            assert_eq!(compared.verdict, Verdict::Equal);
            for reason in [&read.reason, &copied.reason, &wrote.reason, &compared.reason] {
                assert!(!reason.to_string().is_empty());
            }
            for path in [source, copy, written] {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn read_of_a_file_without_a_size_is_an_error_and_not_empty() {
    let shown = Path::new("/proc/self/status");
    let open = File::open(shown).unwrap();
    let directory = &directories()[0];
    let [empty, target] = ["empty", "target"].map(|name| directory.path().join(name));
    fs::write(&empty, b"").unwrap();
    let ignored = |_: u64, _: &[u8]| ControlFlow::Continue(());
    let methods = ["read/sync", "copy/sync", "compare/sync"].map(asked);
    for refused in [
        IoOptions::new().read(shown, ignored).map(drop),
        IoOptions::new().read(FileRange::of_file(&open), ignored).map(drop),
        IoOptions::new().read_into(shown, &mut [0_u8; 0][..]).map(drop),
        IoOptions::new().read_into(shown, &mut [0_u8; 99][..]).map(drop),
        IoOptions::new().copy(shown, &target).map(drop),
        IoOptions::new().compare(shown, &empty).map(drop),
        IoOptions::new().compare(&empty, FileRange::of_file(&open)).map(drop),
        Reader::plan(shown, true).map(drop),
        IoOptions::method(methods[0]).read(shown, ignored).map(drop),
        IoOptions::method(methods[1]).copy(shown, &target).map(drop),
        IoOptions::method(methods[2]).compare(&empty, shown).map(drop),
    ] {
        let error = refused.unwrap_err();
        let is_named = matches!(&error, Error::NotStorage { file_system, .. } if file_system == "proc");
        assert!(is_named, "{error}");
    }
    assert!(!target.exists());
    IoOptions::new().read(&empty, ignored).unwrap();
}

#[test]
fn write_new_refuses_an_existing_target() {
    for directory in directories() {
        let source = file_of(&directory, "source", b"new");
        let target = file_of(&directory, "target", b"older");
        assert!(IoOptions::new().copy(&source, &target).is_err());
        assert!(IoOptions::new().write(&target, b"new").is_err());
        assert_eq!(fs::read(&target).unwrap(), b"older");
        IoOptions::new()
            .destination(Destination::Overwrite)
            .copy(&source, &target)
            .unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }
}

#[test]
fn planned_calls_use_a_named_method_and_keep_durability() {
    for directory in directories() {
        let source = file_of(&directory, "source", &sample(100_000));
        let method = asked("copy/sync,block=64K,fsync");
        let copied = IoOptions::method(method)
            .copy(&source, directory.path().join("named"))
            .unwrap();
        assert_eq!(copied.method, method);
        let durable: Choice = "write/planned,fsync".parse().unwrap();
        let target = directory.path().join("durable");
        let wrote = IoOptions::method(durable).write(target, b"bytes").unwrap();
        assert!(wrote.method.to_string().contains("fsync"), "{}", wrote.method);
    }
}

#[test]
fn planned_calls_refuse_a_method_or_plan_of_another_operation() {
    for directory in directories() {
        let source = file_of(&directory, "source", b"bytes");
        let target = directory.path().join("target");
        let choices: [Choice; 2] = [asked("read/sync").into(), "read/planned".parse().unwrap()];
        for choice in choices {
            let copied = IoOptions::method(choice).copy(&source, &target);
            assert!(matches!(copied, Err(Error::WrongOperation { .. })), "{copied:?}");
            assert!(!target.exists());
        }
    }
}

#[test]
fn job_of_an_update_has_safety_growth_and_an_undo_when_ended() {
    for directory in directories() {
        let path = file_of(&directory, "file", b"0123");
        let batch = || batch_of([2], b"abcd");
        assert!(IoOptions::new().update(&path, batch()).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"0123");
        let done = IoOptions::new()
            .safety(Safety::Journal)
            .allow_growth(true)
            .update(&path, batch());
        assert!(done.unwrap().journal_bytes > 0);
        assert_eq!(fs::read(&path).unwrap(), b"01abcd");
        let path = file_of(&directory, "file", &vec![7; 1 << 20]);
        let batch = batch_of((0..1 << 20).step_by(10_000), b"here");
        let end = |done: u64, _: u64| end_if(done > 0);
        let job = IoOptions::method("update/sync".parse::<Method>().unwrap())
            .safety(Safety::Journal)
            .progress(&end);
        let stopped = job.update(&path, batch).unwrap_err();
        assert!(stopped.is_stopped(), "{stopped:?}");
        assert!(fs::read(&path).unwrap() == vec![7; 1 << 20]);
        assert_eq!(names(directory.path()), [path], "the journal is left");
    }
}

#[test]
fn plan_alone_changes_nothing_and_predicts_a_time() {
    for directory in directories() {
        let path = file_of(&directory, "file", &sample(1 << 20));
        let target = directory.path().join("target");
        let durability = seekless_engine::method::Durability::Fsync;
        let plans = [
            Reader::plan(&path, true),
            Writer::plan(&target, 1 << 20, durability, true),
            Copier::plan(&path, &target, durability, true),
            Comparer::plan(&path, &path, true),
        ];
        for plan in plans {
            let plan = plan.unwrap();
            assert!(plan.predicted.value > std::time::Duration::ZERO, "{plan:?}");
        }
        assert_eq!(names(directory.path()), [path]);
    }
}

const MEBIBYTE: u64 = 1 << 20;

/// Methods of each mechanism that moves blocks, and one whose blocks do not divide the step of progress reports.
const TOLD: &str = "read/sync,block=300K read/double-buffer,block=1M read/posix-aio,block=1M \
    read/io_uring,block=512K,depth=4 read/mmap write/sync,block=1M write/double-buffer,block=1M write/mmap \
    copy/sync,block=300K copy/io_uring,block=512K,depth=4 copy/splice compare/sync,block=100K compare/mmap";

fn run(job: &IoOptions<'_>, operation: Operation, source: &Path, target: &Path) -> Result<(), Error> {
    match operation {
        Operation::Read => job.read(source, |_, _| ControlFlow::Continue(())).map(drop),
        Operation::Write => job.write(target, fs::read(source).unwrap()).map(drop),
        Operation::Copy => job.copy(source, target).map(drop),
        _ => job.compare(source, source.with_extension("same")).map(drop),
    }
}

#[test]
fn watch_of_every_operation_has_progress_and_an_end() {
    for directory in directories() {
        let bytes = sample(40 * MEBIBYTE as usize + 5);
        let source = file_of(&directory, "source", &bytes);
        file_of(&directory, "source.same", &bytes);
        let target = directory.path().join("target");
        for text in of_these(TOLD, directory.path()) {
            let method = asked(text);
            let told = std::sync::Mutex::new(Vec::new());
            let all = |done: u64, of: u64| {
                told.lock().unwrap().push((done, of));
                ControlFlow::Continue(())
            };
            run(
                &IoOptions::method(method).progress(&all),
                method.operation(),
                &source,
                &target,
            )
            .unwrap();
            let told = told.into_inner().unwrap();
            let are_within = told.len() > 2 && told.iter().all(|&(done, of)| done <= of && of == bytes.len() as u64);
            assert!(are_within, "{text}: {told:?}");
            assert!(told.iter().any(|&(done, of)| done == of), "{text}: {told:?}");
            if target.exists() {
                assert!(fs::read(&target).unwrap() == bytes, "{text}: the target is wrong");
                fs::remove_file(&target).unwrap();
            }
            let until = |done: u64, _: u64| end_if(done > 20 * MEBIBYTE);
            let stopped = run(
                &IoOptions::method(method).progress(&until),
                method.operation(),
                &source,
                &target,
            );
            assert!(matches!(stopped, Err(Error::Stopped { .. })), "{text}: {stopped:?}");
            assert!(!target.exists(), "{text}: left a part of the target");
        }
    }
}
