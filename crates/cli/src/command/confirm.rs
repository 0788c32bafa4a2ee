//! Asking on the terminal, before something that a user may not want.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::{Failure, unless_stopped};
use crate::call;
use crate::show::stderr;
use crate::signals::CaughtSignal;

/// How often to check for a signal while waiting for an answer.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Asks on the terminal whether something is to be done.
pub fn is_agreed(question: &str, unasked: &str, is_stdin_used: bool, caught: &CaughtSignal) -> Result<bool, Failure> {
    let answer = answer(&format!("{question} [y/N] "), unasked, is_stdin_used, caught)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

/// Asks a question on the terminal, and returns a line; it is empty if there will be no more. A signal ends it without an answer.
/// `unasked` is the error if there is no terminal. If standard input was read to its end, the answer comes from the
/// terminal of the process.
pub fn answer(question: &str, unasked: &str, is_stdin_used: bool, caught: &CaughtSignal) -> Result<String, Failure> {
    let unasked = || anyhow!("{unasked}");
    let mut terminal: Box<dyn BufRead + Send> = if is_stdin_used {
        Box::new(BufReader::new(File::open("/dev/tty").map_err(|_| unasked())?))
    } else if call::input().is_terminal() {
        Box::new(BufReader::new(call::input()))
    } else {
        return Err(unasked().into());
    };
    if !call::error().is_terminal() {
        return Err(unasked().into());
    }
    write!(stderr(), "{question}").and_then(|()| stderr().flush())?;
    let (send, answered) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let mut answer = String::new();
        let read = terminal.read_line(&mut answer).map(|_| answer);
        send.send(read)
    })?;
    loop {
        match answered.recv_timeout(LOOK_AGAIN) {
            Ok(read) => {
                return Ok(read.context("cannot read the answer")?);
            }
            Err(_) => unless_stopped(caught)?,
        }
    }
}

/// The same before anything was done: fails unless the user agrees.
pub fn require_agreement(question: &str, unasked: &str) -> Result<(), Failure> {
    if is_agreed(question, unasked, false, &CaughtSignal::default())? {
        return Ok(());
    }
    Err(anyhow!("nothing was done").into())
}
