//! Names the files of one directory that differ in another, or lack there: `compare_trees ONE OTHER`.

use std::error::Error;
use std::path::PathBuf;

use seekless::{Operation, Options, Verdict};
use walkdir::WalkDir;

fn main() -> Result<(), Box<dyn Error>> {
    let [one, other] = [1, 2].map(|at| PathBuf::from(std::env::args_os().nth(at).unwrap_or_default()));
    let comparer = Options::new().prepare(Operation::Compare)?;
    for entry in WalkDir::new(&one).sort_by_file_name() {
        let entry = entry?;
        let counterpart = other.join(entry.path().strip_prefix(&one)?);
        if !counterpart.exists() {
            println!("{} is missing", counterpart.display());
        } else if entry.file_type().is_file() && comparer.compare(entry.path(), &counterpart)?.value != Verdict::Equal {
            println!("{} differs", counterpart.display());
        }
    }
    Ok(())
}
