//! Plans for real files: their methods do what is requested, and planning leaves the files unchanged.

use seekless_engine::method::Durability;
use seekless_engine::plan::Plan;
use seekless_engine::{Comparer, Copier, Destination, Reader, Verdict, Writer, cache, sequential};

use super::consumers::in_order;
use super::{directories, file_of, sample};

/// The method of a plan, or the other one if it is not available.
fn either<P>(plan: &Plan, prepare: impl Fn(&seekless_engine::Method) -> seekless_engine::Result<P>) -> P {
    assert!(plan.predicted.low <= plan.predicted.value && plan.predicted.value <= plan.predicted.high);
    assert!(
        !plan.facts.is_empty() && !plan.reason.to_string().is_empty(),
        "{plan:?}"
    );
    prepare(&plan.method).or_else(|_| prepare(&plan.otherwise)).unwrap()
}

#[test]
fn plan_that_is_executed_does_what_is_asked_for() {
    for directory in directories() {
        let bytes = sample(3_000_001);
        let source = file_of(&directory, "source", &bytes);
        let target = directory.path().join("target");
        let before = cache::resident(&source).unwrap();
        for is_predicted in [false, true] {
            let plan = Reader::plan(&source, is_predicted).unwrap();
            let mut read = Vec::new();
            let mut reader = either(&plan, Reader::prepare);
            reader.read(&source, sequential(in_order(&mut read))).unwrap();
            assert!(read == bytes, "{}", plan.method);
            for durability in [Durability::None, Durability::Fsync, Durability::WriteThrough] {
                let size = bytes.len() as u64;
                let plan = Writer::plan(&target, size, durability, is_predicted).unwrap();
                assert_eq!(plan.method.options().durability(), durability);
                let produce = |offset: u64, part: &mut [u8]| {
                    part.copy_from_slice(&bytes[offset as usize..][..part.len()]);
                    Ok(())
                };
                let mut writer = either(&plan, Writer::prepare);
                writer.write(&target, Destination::New, size, &produce).unwrap();
                assert!(std::fs::read(&target).unwrap() == bytes, "{}", plan.method);
                std::fs::remove_file(&target).unwrap();
                let plan = Copier::plan(&source, &target, durability, is_predicted).unwrap();
                assert_eq!(plan.method.options().durability(), durability);
                either(&plan, Copier::prepare)
                    .copy(&source, &target, Destination::New)
                    .unwrap();
                let plan = Comparer::plan(&source, &target, is_predicted).unwrap();
                let compared = either(&plan, Comparer::prepare).compare(&source, &target).unwrap();
                assert_eq!(compared.verdict, Verdict::Equal, "{}", plan.method);
                std::fs::remove_file(&target).unwrap();
            }
        }
        assert_eq!(cache::resident(&source).unwrap(), before);
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 1, "measuring leaves no files");
    }
}

#[test]
fn plan_of_what_is_not_there_is_an_error() {
    for directory in directories() {
        let missing = directory.path().join("missing/file");
        let source = file_of(&directory, "source", b"bytes");
        assert!(Reader::plan(&missing, true).is_err());
        assert!(Reader::plan(directory.path(), true).is_err(), "a directory");
        assert!(Writer::plan(&missing, 1, Durability::None, true).is_err());
        assert!(Copier::plan(&source, &missing, Durability::None, true).is_err());
        assert!(Comparer::plan(&source, &missing, true).is_err());
    }
}
