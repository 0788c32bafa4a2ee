//! Copies a file by the plan, or by a method that you name: `copy FROM TO [METHOD]`.

use seekless::{Job, Method};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.as_slice() {
        [from, to] => seekless::copy(from, to)?,
        [from, to, method] => Job::by(method.parse::<Method>()?).copy(from, to)?,
        _ => return Err("copy FROM TO [METHOD]".into()),
    };
    println!("{} bytes copied by {}: {}", done.bytes, done.method, done.why);
    Ok(())
}
