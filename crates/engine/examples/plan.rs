//! Prints how a file would be read, how long that would take, and why: `plan FILE`.

use seekless::Request;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("plan FILE")?;
    let plan = seekless::plan(&Request::read(&path))?;
    println!("{}, in about {:?}: {}", plan.method, plan.predicted.value, plan.why);
    Ok(())
}
