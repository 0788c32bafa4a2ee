//! Counts the lines of a file, read by the plan: `read FILE`.

use std::ops::ControlFlow;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("read FILE")?;
    let mut lines = 0;
    let done = seekless::read(path, |_offset, bytes| {
        lines += bytes.split(|&byte| byte == b'\n').count() - 1;
        ControlFlow::Continue(())
    })?;
    println!(
        "{lines} lines in {} bytes, read by {}: {}",
        done.bytes, done.method, done.why
    );
    Ok(())
}
