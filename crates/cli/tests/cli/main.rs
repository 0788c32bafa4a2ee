//! The command as users see it: arguments in, files and exit codes out.
//!
//! Every test has a directory and a data directory of its own, and measures for seconds at most. Without root, tests
//! that need it print `skipped` and why.

mod attacked;
mod bad_input;
mod bench_update;
mod cache;
mod cmp;
mod code;
mod commit;
mod comparing;
mod completions;
mod config;
mod copying_to;
mod documents;
mod dupes;
mod dupes_act;
mod dupes_directories;
mod dupes_disks;
mod dupes_faults;
mod dupes_like_jdupes;
mod dupes_promised;
mod experiments;
mod exports;
mod foreign;
mod full_disk;
mod given_files;
mod golden;
mod help;
mod holes;
mod interruption;
mod json;
mod layouts;
mod methods;
mod one_number;
mod outputs;
mod place;
mod profiles;
mod random;
mod read_ahead;
mod report;
mod resume;
mod runs;
mod sittings;
mod storage;
mod sustained;
mod system;
mod terminal;
mod trees;
mod trees_like_diff;
mod trusted;
mod turns;
mod unprivileged;
mod update;
mod update_spilled;
mod update_told;
