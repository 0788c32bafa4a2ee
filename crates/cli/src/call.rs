//! One call of the command: its arguments, and the streams that it reads and writes.
//!
//! One call runs at a time in a process. Nothing else in this crate names the streams or the arguments of the process.

#![expect(clippy::disallowed_methods, reason = "nothing else asks the process")]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Stderr, Stdin, Stdout, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, bail};
use etcetera::{BaseStrategy, HomeDirError};
use seekless_engine::profile::without_profiles;
use seekless_sys::lock_mutex;

/// One call of the command, for [`crate::run`].
#[derive(Clone, Debug)]
pub struct Call {
    arguments: Vec<OsString>,
    streams: Streams,
    program: Option<PathBuf>,
    user: Option<PathBuf>,
}

impl Call {
    /// A call with these arguments, of which the first is the name of the program, and these streams.
    pub fn new<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>, streams: Streams) -> Self {
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            streams,
            program: None,
            user: None,
        }
    }

    /// The call that this process is.
    #[must_use]
    pub fn of_process() -> Self {
        Self::new(std::env::args_os(), Streams::of_process())
    }

    /// The same; the file of the program is here, if this process runs another program. Commands that start it again need it:
    /// `bench` for each trial, and `sim start`.
    #[must_use]
    pub fn with_program(self, path: impl Into<PathBuf>) -> Self {
        Self {
            program: Some(path.into()),
            ..self
        }
    }

    /// The same; the user's files are below this directory, in `config`, `data`, `state` and `cache`, instead of where the
    /// environment says. Profiles of storages stay where they are.
    #[must_use]
    pub fn with_user_directory(self, path: impl Into<PathBuf>) -> Self {
        Self {
            user: Some(path.into()),
            ..self
        }
    }
}

/// The standard streams of a call.
#[derive(Clone, Debug)]
pub struct Streams {
    input: Stream,
    output: Stream,
    error: Stream,
}

impl Streams {
    /// Open files: pipes, terminals, regular files. They are closed when the last clone of this is gone.
    pub fn new(input: impl Into<OwnedFd>, output: impl Into<OwnedFd>, error: impl Into<OwnedFd>) -> Self {
        let given = |file: OwnedFd| Stream::Given(Arc::new(file.into()));
        Self {
            input: given(input.into()),
            output: given(output.into()),
            error: given(error.into()),
        }
    }

    /// Those of the process. The call may then do what only a program may: see [`crate::run`].
    #[must_use]
    pub const fn of_process() -> Self {
        Self {
            input: Stream::Input,
            output: Stream::Output,
            error: Stream::Error,
        }
    }
}

/// One of the streams, without any buffer.
#[derive(Clone, Debug)]
pub(crate) enum Stream {
    Input,
    Output,
    Error,
    Given(Arc<File>),
}

static INPUT: LazyLock<Stdin> = LazyLock::new(io::stdin);
static OUTPUT: LazyLock<Stdout> = LazyLock::new(io::stdout);
static ERROR: LazyLock<Stderr> = LazyLock::new(io::stderr);

impl Stream {
    pub fn is_terminal(&self) -> bool {
        self.as_fd().is_terminal()
    }

    /// Its columns and rows, if it is a terminal.
    pub fn terminal_size(&self) -> Option<(terminal_size::Width, terminal_size::Height)> {
        terminal_size::terminal_size_of(self)
    }

    /// Whether the process was started without this input or output. std hides that: reads give nothing, and what is written is lost.
    pub fn was_closed(&self) -> bool {
        match self {
            Self::Input => seekless_sys::was_closed(0),
            Self::Output => seekless_sys::was_closed(1),
            // Then errors go nowhere.
            Self::Error | Self::Given(_) => false,
        }
    }

    /// Whether text in it has styles: never [`ColorChoice::Auto`].
    pub fn choice(&self) -> ColorChoice {
        match self {
            Self::Input | Self::Output => AutoStream::choice(&*OUTPUT),
            Self::Error => AutoStream::choice(&*ERROR),
            Self::Given(file) => AutoStream::choice(&**file),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Input => INPUT.as_fd(),
            Self::Output => OUTPUT.as_fd(),
            Self::Error => ERROR.as_fd(),
            Self::Given(file) => file.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&*self, buffer)?)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.was_closed() {
            return Err(rustix::io::Errno::BADF.into());
        }
        Ok(rustix::io::write(&*self, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The call that runs now.
static NOW: Mutex<Option<Arc<Call>>> = Mutex::new(None);

fn now() -> MutexGuard<'static, Option<Arc<Call>>> {
    lock_mutex(&NOW)
}

/// A call while it runs. What it chooses for the process, for want of a narrower place, ends with it.
pub(crate) struct Running {
    call: Arc<Call>,
    color: ColorChoice,
    is_without_profiles: bool,
    _alone: MutexGuard<'static, ()>,
}

impl Running {
    /// Waits until no other call runs, and makes this the one that does.
    pub fn start(call: Call) -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let alone = lock_mutex(&ONE_AT_A_TIME);
        let call = Arc::new(call);
        *now() = Some(Arc::clone(&call));
        let color = ColorChoice::global();
        ColorChoice::Auto.write_global();
        Self {
            call,
            color,
            is_without_profiles: without_profiles(false),
            _alone: alone,
        }
    }

    pub fn arguments(&self) -> &[OsString] {
        &self.call.arguments
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *now() = None;
        self.color.write_global();
        without_profiles(self.is_without_profiles);
    }
}

/// The streams of the call that runs; if none does, those of the process.
fn streams() -> Streams {
    let call = now();
    call.as_ref().map_or(Streams::of_process(), |call| call.streams.clone())
}

/// Standard input of the call.
pub(crate) fn input() -> Stream {
    streams().input
}

/// The same, if it was open when the program was started.
pub(crate) fn open_input() -> io::Result<Stream> {
    let input = input();
    if input.was_closed() {
        return Err(rustix::io::Errno::BADF.into());
    }
    Ok(input)
}

/// Standard output of the call.
pub(crate) fn output() -> Stream {
    streams().output
}

/// Standard error of the call.
pub(crate) fn error() -> Stream {
    streams().error
}

/// Whether the call is all that this process is for, so that it may do what only a program may.
pub(crate) fn is_process() -> bool {
    matches!(output(), Stream::Output)
}

/// The arguments of the call, without the name of the program.
pub(crate) fn arguments() -> Vec<OsString> {
    let call = now();
    let arguments = call.iter().flat_map(|call| call.arguments.iter().skip(1));
    arguments.cloned().collect()
}

/// The file of this program, if the call named it.
pub(crate) fn named_program() -> Option<PathBuf> {
    now().as_ref().and_then(|call| call.program.clone())
}

/// The file of this program, which is to be started again.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    match named_program() {
        Some(program) => Ok(program),
        None if is_process() => std::env::current_exe().context("cannot find this program's own file"),
        None => bail!("the file of the program is not known, and this command starts it again"),
    }
}

/// The user's directories for the files of all programs; ours are in `seekless` in each.
pub(crate) struct UserDirectories {
    pub config: PathBuf,
    pub data: PathBuf,
    pub state: PathBuf,
    pub cache: PathBuf,
}

impl UserDirectories {
    /// Those of the call, or those that the environment names.
    ///
    /// # Errors
    /// If the environment names none.
    pub fn find() -> Result<Self, HomeDirError> {
        let given = now().as_ref().and_then(|call| call.user.clone());
        if let Some(user) = given {
            return Ok(Self {
                config: user.join("config"),
                data: user.join("data"),
                state: user.join("state"),
                cache: user.join("cache"),
            });
        }
        let named = etcetera::choose_base_strategy()?;
        Ok(Self {
            config: named.config_dir(),
            data: named.data_dir(),
            state: named.state_dir().unwrap_or_else(|| named.data_dir()),
            cache: named.cache_dir(),
        })
    }
}

/// The columns for help, as clap asks for them, but of the streams of the call.
pub(crate) fn columns() -> usize {
    let Streams { input, output, error } = streams();
    let terminal = [output, error, input].iter().find_map(Stream::terminal_size);
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    let columns = terminal.map(|(width, _)| width.0.into()).or_else(variable);
    columns.unwrap_or(100)
}
