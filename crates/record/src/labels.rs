//! Enums with a word for each value, the same in documents and in texts.

seekless_method::words! {
    /// How the page cache is emptied before a cold trial.
    #[derive(Default)]
    DropScope {
        /// The file's pages only: needs no privilege.
        #[default]
        File = "file",
        /// All clean pages of the system: needs root.
        System = "system",
    }

    /// How a run ended.
    #[derive(Default)]
    Ended {
        /// Everything planned was measured.
        #[default]
        Complete = "complete",
        /// A signal or a closed terminal stopped it; the document has the trials until then.
        Interrupted = "interrupted",
    }

    /// The meaning of a command's exit code.
    #[derive(Default)]
    ExitCode {
        /// 0 is success.
        #[default]
        Success = "success",
        /// 0 means that the files are equal, 1 that they differ, as with cmp(1).
        Verdict = "verdict",
    }

    /// What kind of method a published finding is about.
    #[derive(Default)]
    FindingKind {
        /// All methods.
        #[default]
        Any = "any",
        /// Those that wait for each call.
        Synchronous = "synchronous",
        /// Those that process bytes while others are moved.
        Overlapping = "overlapping",
    }

    /// The state of the page cache a trial starts from.
    #[derive(Default)]
    Cache {
        /// Nothing of the file is resident.
        #[default]
        Cold = "cold",
        /// All of the file is resident.
        Warm = "warm",
        /// The file is larger than the memory allowed.
        Over = "over",
        /// An existing file of the user, not resident, which is read once and was not dropped from memory by the lab.
        FirstTouch = "first-touch",
        /// There is no file yet (a fresh write).
        None = "none",
    }

    /// The target of a write or a copy.
    #[derive(Default)]
    Target {
        /// A file that did not exist.
        #[default]
        Fresh = "fresh",
        /// A file of the same size that is written over.
        Overwrite = "overwrite",
        /// A new file to which blocks are appended, each durable before its writer appends the next; for writes.
        Append = "append",
    }

    /// Where the second file of a comparison differs from the first.
    #[derive(Default)]
    Differ {
        /// Nowhere: it is another file with the same bytes. Also the value for other operations.
        #[default]
        None = "none",
        /// In the first byte.
        First = "first",
        /// In a byte after one hundredth of the file.
        Early = "early",
        /// In a byte in the middle.
        Middle = "middle",
        /// In the last byte.
        Last = "last",
        /// Nowhere: it is the first file.
        Itself = "itself",
    }

    /// Which places are updated, and in which order they are given.
    #[derive(Default)]
    Draw {
        /// Each once, from the first to the last.
        #[default]
        Ascending = "ascending",
        /// Each once, in a random order.
        Shuffled = "shuffled",
        /// As many draws as there are places, from the first part of the file, so that some places occur twice and some
        /// never, as in the program of 2008.
        Repeating = "repeating",
    }

    /// Which part of the run a trial belongs to.
    #[derive(Default)]
    Phase {
        /// The first rounds, of everything.
        #[default]
        Screening = "screening",
        /// Further rounds of those not yet beaten.
        Contending = "contending",
        /// Fresh rounds of the winner.
        Confirming = "confirming",
    }
}
