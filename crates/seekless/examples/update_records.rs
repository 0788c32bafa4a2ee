//! Sets the counters of records of 64 bytes, all of them or none: `update_records FILE COUNTER RECORD...`.

use std::error::Error;

use seekless::{Batch, Options, Safety};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, counter, records @ ..] = words.as_slice() else {
        return Err("FILE COUNTER RECORD...".into());
    };
    let counter: u64 = counter.parse()?;
    let mut batch = Batch::new();
    for record in records {
        batch.push(record.parse::<u64>()? * 64, &counter.to_le_bytes())?;
    }
    let updated = Options::new().safety(Safety::Journal).update(path, batch)?;
    println!(
        "{} bytes changed in {} writes by {}",
        updated.bytes, updated.value.writes, updated.method
    );
    Ok(())
}
