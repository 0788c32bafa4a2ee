//! Compares two files by the plan: `compare ONE OTHER`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut paths = std::env::args_os().skip(1);
    let (one, other) = paths.next().zip(paths.next()).ok_or("compare ONE OTHER")?;
    let done = seekless::compare(one, other)?;
    println!("{:?}, found by {}: {}", done.verdict, done.method, done.why);
    Ok(())
}
