//! Published results on the question of a run.

use seekless_method::{Durability, Operation};

use super::SystemUse;
use crate::{Bounds, Cache, Draw, FindingKind, Target, Text};

documents! {
    /// Results that others published, to be shown beside those of this machine.
    #[derive(Default)]
    pub struct Published {
        /// The experiment that gives it.
        pub experiment: String => Text::Experiment,
        /// Where it was published: a title, a year and an address.
        pub source: String => Text::Private,
        /// The machine it was measured on, in a few words.
        pub machine: String => Text::Private,
        /// The findings.
        pub findings: Vec<Finding>,
    }

    /// One published finding: the best method of a task, or what a method took.
    #[derive(Default)]
    pub struct Finding {
        /// The operation.
        pub operation: Operation,
        /// Whether it is about methods that wait for each call, that overlap, or all.
        pub kind: FindingKind,
        /// The smallest file it is about, in bytes; `None` for any.
        pub at_least_bytes: Option<u64> => Bounds::COUNT,
        /// The files it is about are smaller, in bytes; `None` for any.
        pub below_bytes: Option<u64> => Bounds::COUNT,
        /// The method, by the name it was published under.
        pub method: String => Text::Private,
        /// The buffer, in the words it was published with; `None` where the method has none.
        pub block: Option<String> => Text::Private,
        /// The state of the page cache it is about; `None` for any.
        pub cache: Option<Cache>,
        /// The layout of the files it is about; `None` for data throughout.
        pub layout: Option<String> => Text::Private,
        /// The durability it is about; `None` for any.
        pub durability: Option<Durability>,
        /// The seconds it took, where these were published.
        pub seconds: Option<f64> => Bounds::SECONDS,
        /// User and system seconds together.
        pub cpu_seconds: Option<f64> => Bounds::SECONDS,
        /// The rate, in bytes per second.
        pub bytes_per_second: Option<f64> => Bounds::RATIO,
        /// What the whole system did.
        pub system: Option<SystemUse>,
    }

    /// A column of a document: what was measured under its name, one line a size.
    #[derive(Default, Eq)]
    pub struct Column {
        /// The experiment that gives it.
        pub experiment: String => Text::Experiment,
        /// Its heading, by which findings are published too.
        pub name: String => Text::Private,
        /// The operation.
        pub operation: Operation,
        /// What was written to; `None` for any.
        pub target: Option<Target>,
        /// How updates were drawn; `None` for any.
        pub draw: Option<Draw>,
        /// A glob that chooses its methods.
        pub methods: String => Text::Private,
    }
}
