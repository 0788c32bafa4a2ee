//! Why an entry of a contest is not measured.

use seekless_engine::Method;
use seekless_engine::method::{CachePolicy, Choice, Durability, Operation};
use seekless_record::{Cache, Contest, Differ};
use seekless_results::chosen_size;

use super::size::all_bytes;
use super::storage::MeasuredStorage;

/// Why an entry of a contest is not measured, or is ranked apart from the rest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Skip {
    #[error("a command cannot be given the random blocks that the methods move")]
    CommandAtRandom,
    #[error("a command cannot be made to read a part of a file")]
    CommandOnPart,
    #[error("a command cannot simulate processing, so it would do less work than the methods")]
    CommandWithWork,
    #[error("a command cannot be made to write through, so it would do less work than the methods")]
    CommandThrough,
    #[error("files that are read once are no longer measured")]
    ReadOnce,
    #[error("files to update can only be cold or warm")]
    UpdateOver,
    #[error("{0} keeps its files in memory, so nothing is cold")]
    NothingCold(String),
    #[error("{0} keeps its files in memory, so no file exceeds it")]
    NothingOver(String),
    #[error("direct I/O reads the device whatever is in memory: see the cold contest")]
    WarmDirect,
    #[error(
        "the files ({}) do not exceed the memory allowed ({})",
        chosen_size(*read_bytes), chosen_size(*memory_bytes)
    )]
    FitsMemory { read_bytes: u64, memory_bytes: u64 },
    #[error("it skips holes, so it is ranked apart from methods that read them")]
    SkipsHoles,
    #[error("its copies share blocks with their source, so it is ranked apart")]
    SharesBlocks,
}

impl Skip {
    /// Why a method, plan or command makes no sense in a contest on these storages. No I/O.
    pub fn of(choice: Option<&Choice>, contest: &Contest, storages: &[&MeasuredStorage]) -> Option<Self> {
        let of_command = || choice.is_none().then(|| Self::of_command(contest)).flatten();
        let on = |storage: &&MeasuredStorage| Self::on_storage(choice, contest.cache, storage);
        let read_bytes = read_bytes(contest);
        let fits = contest.memory_bytes.filter(|&memory_bytes| read_bytes <= memory_bytes);
        of_command().or_else(|| storages.iter().find_map(on)).or_else(|| {
            fits.map(|memory_bytes| Self::FitsMemory {
                read_bytes,
                memory_bytes,
            })
        })
    }

    /// Why a command cannot be ranked with the methods of a contest: it would do less.
    fn of_command(contest: &Contest) -> Option<Self> {
        if contest.random.is_some() {
            Some(Self::CommandAtRandom)
        } else if contest.part_of_bytes.is_some() {
            Some(Self::CommandOnPart)
        } else if contest.work_ns_per_kib > 0 {
            Some(Self::CommandWithWork)
        } else {
            (contest.durability == Durability::WriteThrough).then_some(Self::CommandThrough)
        }
    }

    /// Why a method, plan or command makes no sense in a cache state.
    fn on_storage(choice: Option<&Choice>, cache: Cache, storage: &MeasuredStorage) -> Option<Self> {
        let options = choice.and_then(Choice::method).map(Method::options);
        let is_direct = options.is_some_and(|options| options.cache() == CachePolicy::Direct);
        let operation = choice.map(Choice::operation);
        let file_system = || storage.facts.file_system.clone();
        match cache {
            Cache::FirstTouch => Some(Self::ReadOnce),
            Cache::Over if operation == Some(Operation::Update) => Some(Self::UpdateOver),
            Cache::Cold if !storage.has_cold => Some(Self::NothingCold(file_system())),
            Cache::Over if !storage.has_cold => Some(Self::NothingOver(file_system())),
            Cache::Warm if is_direct && operation != Some(Operation::Write) => Some(Self::WarmDirect),
            _ => None,
        }
    }
}

/// Whether a contest compares two files.
pub(super) fn has_second(contest: &Contest) -> bool {
    contest.operation == Operation::Compare && contest.differ != Differ::Itself
}

/// The bytes of all files that a trial reads.
pub(super) fn read_bytes(contest: &Contest) -> u64 {
    all_bytes(contest).saturating_mul(if has_second(contest) { 2 } else { 1 })
}
