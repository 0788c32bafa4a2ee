//! Enums of which each value has a word, the same in documents and in texts.

seekless_method::words! {
    /// How the page cache is emptied before a cold trial.
    #[derive(Default)]
    Drop {
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
        /// A signal or a closed terminal stopped it; what was measured until then is here.
        Interrupted = "interrupted",
    }

    /// What a command tells by how it ends.
    #[derive(Default)]
    ExitCode {
        /// 0 that it succeeded.
        #[default]
        Success = "success",
        /// 0 that two files are equal and 1 that they differ, as of cmp(1).
        Verdict = "verdict",
    }

    /// The verdict on an entry.
    Verdict {
        /// The smallest median.
        Best = "best",
        /// Not told apart from the best.
        Tie = "tie",
        /// Slower.
        Slower = "slower",
    }

    /// What kind of method a published finding is about.
    FindingKind {
        /// All methods.
        Any = "any",
        /// Those that wait for each call.
        Synchronous = "synchronous",
        /// Those that compute while they wait.
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
        /// Nothing of the file is resident, and nobody brought that about: it is a file of the user that is read once.
        FirstTouch = "first-touch",
        /// There is no file yet (a fresh write).
        None = "none",
    }

    /// What a write or a copy is made to.
    #[derive(Default)]
    Target {
        /// A file that did not exist.
        #[default]
        Fresh = "fresh",
        /// A file of the same size that is written over.
        Overwrite = "overwrite",
    }

    /// Where the second file of a comparison differs from the first.
    #[derive(Default)]
    Differ {
        /// Nowhere: it is another file with the same bytes. Also said of other operations.
        #[default]
        None = "none",
        /// In the first byte.
        First = "first",
        /// In a byte behind a hundredth of it.
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
        /// As many as there are, drawn from the first part of the file, where some come twice and some never: what the
        /// program of 2008 really drew.
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
