//! Lines with a label, and asking before something that a user may not want.

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, bail};
use seekless_results::visible;

/// Writes a label, and from column `at` on a text.
pub fn labelled(out: &mut dyn Write, label: &str, at: usize, text: &str) -> io::Result<()> {
    writeln!(out, "{label:at$}{}", visible(text))
}

/// Writes a note about the output above it.
pub fn note(out: &mut dyn Write, text: &str) -> io::Result<()> {
    labelled(out, "Note", 6, text)
}

/// Asks on the terminal, and fails unless the user agrees. `unasked` is the error if there is no terminal.
pub fn require_agreement(question: &str, unasked: &'static str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!(unasked);
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    if !["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) {
        bail!("nothing was done");
    }
    Ok(())
}
