//! Writes standard input to a new file, which is on the device when this ends: `durable_writer FILE`.

use std::error::Error;

use seekless::{Durability, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_default();
    let mut file = Options::new().durability(Durability::Fsync).writer(&path)?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file)?;
    let written = file.finish()?;
    println!("{} bytes in {:?} by {}", written.bytes, written.elapsed, written.method);
    Ok(())
}
