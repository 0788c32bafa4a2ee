//! Writes standard input to a new file and onto its device: `write FILE`.

use std::io::Read;

use seekless::{Choice, Job};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("write FILE")?;
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let durable: Choice = "write/planned,fsync".parse()?;
    let done = Job::by(durable).write(path, bytes)?;
    println!("{} bytes written by {}: {}", done.bytes, done.method, done.why);
    Ok(())
}
