//! Doubles every hundredth integer of a file, in few writes: `update FILE`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("update FILE")?;
    let bytes = std::fs::metadata(&path)?.len();
    let mut batch = seekless::update::Batch::new();
    for integer in (0..bytes / 4).step_by(100) {
        batch.push(integer * 4, &(integer as u32).wrapping_mul(2).to_le_bytes())?;
    }
    let done = seekless::update(path, batch)?;
    println!(
        "{} bytes in {} writes by {}: {}",
        done.written_bytes, done.writes, done.method, done.why
    );
    Ok(())
}
