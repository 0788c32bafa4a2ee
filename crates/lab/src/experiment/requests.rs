//! Requests of another size and number in flight than an experiment names: fio's first words.

use seekless_engine::Method;
use seekless_engine::method::{AccessPattern, MECHANISMS, Operation, Setting};
use seekless_record::{Entry, Subject, Target};

use super::{ContestPlan, Experiment};

/// What requests are asked for instead of those of an experiment. Empty lists and `None` keep its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Bytes of a request.
    pub blocks: Vec<u64>,
    /// Requests in flight, by the methods that have a depth; 1 also stands for those that wait for each request.
    pub depths: Vec<u32>,
    /// Threads, each with one request in flight.
    pub threads: Vec<u32>,
    /// Per cent of the requests of writes that read.
    pub reads_percent: Option<u32>,
}

impl Requests {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The contests of an experiment whose requests are timed, at random or appended, with these requests; none where no
    /// method can make them.
    #[must_use]
    pub fn of(&self, experiment: &Experiment) -> Experiment {
        let contests = experiment.contests.iter().map(|plan| self.of_contest(plan));
        Experiment {
            contests: contests.filter(|plan| !plan.common.entries.is_empty()).collect(),
            ..experiment.clone()
        }
    }

    fn of_contest(&self, plan: &ContestPlan) -> ContestPlan {
        let mut entries: Vec<Entry> = Vec::new();
        let mut plan = plan.clone();
        for entry in std::mem::take(&mut plan.common.entries) {
            let choice = entry.choice();
            let method = choice.as_ref().and_then(|choice| choice.method());
            let is_timed = |method: &&Method| {
                method.options().access() == AccessPattern::Random || plan.common.target == Target::Append
            };
            for method in method
                .filter(is_timed)
                .into_iter()
                .flat_map(|method| self.of_method(method))
            {
                let subject = Subject::Method(method.to_string());
                if entries.iter().all(|other| other.subject != subject) {
                    entries.push(super::entry(subject, None));
                }
            }
        }
        plan.common.entries = entries;
        plan
    }

    /// A method with each of the blocks, depths and numbers of threads that it can have.
    fn of_method(&self, method: &Method) -> Vec<Method> {
        let own_block = method.options().block_bytes().into_iter();
        let blocks: Vec<u64> = if self.blocks.is_empty() {
            own_block.collect()
        } else {
            self.blocks.clone()
        };
        let mut methods = Vec::new();
        for in_flight in self.in_flight(method) {
            for &block in &blocks {
                let sized = in_flight.with(Setting::block_bytes(block));
                let mixed = sized.and_then(|method| match self.reads_percent {
                    Some(percent) => method.with(Setting::reads_percent(percent)),
                    None => Ok(method),
                });
                methods.extend(mixed);
            }
        }
        methods
    }

    fn in_flight(&self, method: &Method) -> Vec<Method> {
        if self.depths.is_empty() && self.threads.is_empty() {
            return vec![*method];
        }
        let options = method.options();
        if options.depth().is_some() {
            let depths = self.depths.iter();
            return depths
                .filter_map(|&depth| method.with(Setting::depth(depth)).ok())
                .collect();
        }
        let is_threaded = |name: &str| ["sync", "threads"].contains(&name);
        let mut methods = Vec::new();
        let waits = options.threads() == 1;
        if waits && (self.depths.contains(&1) || self.threads.contains(&1)) {
            methods.push(*method);
        }
        let operation = method.operation();
        let of_threads = |mechanism: &&_| is_with_threads(mechanism, operation);
        let mechanism = MECHANISMS
            .iter()
            .find(of_threads)
            .filter(|_| is_threaded(method.mechanism().name));
        let several = self.threads.iter().filter(|&&threads| threads > 1);
        let threads =
            several.filter_map(|&threads| Method::new(mechanism?, options.with(Setting::threads(threads))).ok());
        methods.extend(threads);
        methods
    }
}

fn is_with_threads(mechanism: &seekless_engine::method::Mechanism, operation: Operation) -> bool {
    (mechanism.operation, mechanism.name) == (operation, "threads")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(requests: &Requests, name: &str) -> Vec<String> {
        let asked = requests.of(&Experiment::builtin(name).unwrap());
        let methods = asked.contests.iter().flat_map(ContestPlan::methods);
        methods.map(|choice| choice.to_string()).collect()
    }

    #[test]
    fn blocks_depths_and_threads_replace_those_of_the_experiment() {
        let of = |blocks: &[u64], depths: &[u32], threads: &[u32], name| {
            let requests = Requests {
                blocks: blocks.to_vec(),
                depths: depths.to_vec(),
                threads: threads.to_vec(),
                ..Requests::default()
            };
            methods(&requests, name)
        };
        let blocks = of(&[8192, 16_384], &[], &[], "random");
        let has_block = |method: &String| method.contains("block=8K") || method.contains("block=16K");
        assert!(blocks.len() == 30 && blocks.iter().all(has_block), "{blocks:?}");
        let depths = of(&[], &[16], &[], "random");
        assert!(depths.contains(&"read/io_uring,depth=16,direct,block=4K,access=random".to_owned()));
        assert!(depths.iter().all(|method| method.contains("depth=16")), "{depths:?}");
        let threads = of(&[], &[], &[1, 4], "random");
        assert!(threads.contains(&"read/threads=4,direct,block=4K,access=random".to_owned()));
        assert!(threads.contains(&"write/sync,block=4K,access=random,fsync".to_owned()));
        assert!(!threads.iter().any(|method| method.contains("io_uring")), "{threads:?}");
        let appends = of(&[4096], &[], &[8], "commit");
        let wanted = "write/threads=8,block=4K,fdatasync-each".to_owned();
        assert!(appends.contains(&wanted), "{appends:?}");
        assert!(of(&[], &[2], &[], "read").is_empty());
    }

    #[test]
    fn a_mix_is_of_writes_that_read() {
        let requests = Requests {
            reads_percent: Some(70),
            depths: vec![8],
            ..Requests::default()
        };
        let mixed = methods(&requests, "random");
        assert!(mixed.contains(&"write/io_uring,depth=8,direct,block=4K,access=random,reads=70,fsync".to_owned()));
        assert!(mixed.iter().all(|method| method.contains("reads=70")), "{mixed:?}");
        assert!(methods(&requests, "commit").is_empty(), "appends read nothing");
    }
}
