//! Counts the lines of files at once, without blocking the runtime: `reader_under_tokio FILE...`.

use std::error::Error;
use std::io::BufRead;

use seekless::Options;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

fn main() -> Result<(), Box<dyn Error>> {
    Builder::new_current_thread().build()?.block_on(count())
}

async fn count() -> Result<(), Box<dyn Error>> {
    let mut counting = JoinSet::new();
    for path in std::env::args_os().skip(1) {
        counting.spawn_blocking(move || -> std::io::Result<usize> {
            let lines = Options::new().reader(&path)?.lines().collect::<Result<Vec<_>, _>>()?;
            Ok(lines.len())
        });
    }
    let mut lines = 0;
    while let Some(counted) = counting.join_next().await {
        lines += counted??;
    }
    println!("{lines} lines");
    Ok(())
}
