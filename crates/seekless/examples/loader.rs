//! Loads files into memory one after the other, by what was prepared once: `loader FILE...`.

use seekless::{Operation, Options};

fn main() -> seekless::Result<()> {
    let prepared = Options::new().prepare(Operation::Read)?;
    for path in std::env::args_os().skip(1) {
        let loaded = prepared.read_to_vec(&path)?;
        println!(
            "{}: {} bytes in {:?} by {}",
            path.display(),
            loaded.value.len(),
            loaded.elapsed,
            loaded.method
        );
    }
    Ok(())
}
