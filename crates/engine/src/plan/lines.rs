//! Whether newlines are counted while two files are compared, or afterwards in the part that is equal.

use std::time::Duration;

use seekless_method::{Differ, Method, Setting};

use super::{Plan, Predicted};

/// The two files pass through the page cache in turn.
const FILES: u64 = 2;

impl Plan {
    /// The plan of a comparison that is to name a line, for files with this many bytes of data each: it counts newlines on the way
    /// where these will have left the page cache before they could be read again.
    ///
    /// In memory, comparing took 0.1 s a GiB and counting afterwards 0.1 s, the loop that does both 0.7 s in its one thread. From
    /// a device that gives both files at 2 GB/s comparing took 0.94 s, the loop 1.02 s, and reading the first once more 0.45 s.
    #[doc(hidden)]
    #[must_use]
    pub fn counting_lines(mut self, data_bytes: u64, memory_bytes: u64) -> Self {
        if data_bytes <= memory_bytes / FILES {
            return self;
        }
        let counting = |method: Method| method.with(Setting::threads(None))?.with(Differ::Linewise);
        if let (Ok(method), Ok(otherwise)) = (counting(self.method), counting(self.otherwise)) {
            self.why += "; lines are counted meanwhile, because memory cannot hold both files for a second pass";
            (self.method, self.otherwise) = (method, otherwise);
            let counting = Duration::from_nanos(data_bytes.saturating_mul(6) / 10);
            let Predicted { low, value, high } = &mut self.predicted;
            for predicted in [low, value, high] {
                *predicted = predicted.saturating_add(counting);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_on_the_way_where_memory_does_not_hold_both_files() {
        let plan = |method: &'static str| Plan {
            method: Method::known(method),
            otherwise: Method::known("compare/sync,block=128K"),
            predicted: Predicted::default(),
            is_certain: true,
            why: "it was cold".to_owned(),
            facts: Vec::new(),
        };
        for (method, counting) in [
            (
                "compare/sync,threads=2,block=1M",
                "compare/sync,block=1M,differ=linewise",
            ),
            (
                "compare/mmap,threads=4,block=8M",
                "compare/mmap,block=8M,differ=linewise",
            ),
            (
                "compare/sync,block=1M,window=32M",
                "compare/sync,block=1M,window=32M,differ=linewise",
            ),
            (
                "compare/sync,block=1M,order=parallel",
                "compare/sync,block=1M,order=parallel,differ=linewise",
            ),
        ] {
            for (data_bytes, memory_bytes, is_on_the_way) in [
                (1000, 2000, false),
                (1001, 2000, true),
                (u64::MAX, 2000, true),
                (1000, u64::MAX, false),
            ] {
                let planned = plan(method).counting_lines(data_bytes, memory_bytes);
                let expected: Method = if is_on_the_way { counting } else { method }.parse().unwrap();
                assert_eq!(planned.method, expected);
                assert_eq!(planned.why != "it was cold", is_on_the_way);
            }
        }
    }
}
