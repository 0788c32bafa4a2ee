//! `seekless sim`: a disk of your choice, as a block device.

mod cut;
mod list;
mod serve;
mod show;
mod start;
mod stop;

use clap::{Args, Subcommand};
use seekless_sim::models::{DiskModel, MODELS};

#[cfg(target_os = "linux")]
pub(super) use self::serve::server;
use super::Failure;
use super::values::Word;

/// Simulate a disk: a block device that is as slow as the disk, with a real file system on it.
///
/// The kernel does not know that the disk is simulated: the page cache, read-ahead, direct I/O and the byte counters are real. Only
/// the times are those of a model. A simulated disk needs root, /dev/fuse and loop devices.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless sim show                         # the models
  sudo seekless sim start hdd-2009          # a disk of 2009, with ext4 on it
  sudo seekless sim list                    # what it served
  sudo seekless sim cut hdd-2009            # cuts its power, and restores it
  sudo seekless sim stop hdd-2009           # unmounts and removes it

For details, see `seekless sim COMMAND --help`.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Start(start::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
    Cut(cut::Arguments),
    Stop(stop::Arguments),
    /// Serves a device, in the background.
    #[command(hide = true)]
    Serve(serve::Arguments),
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    return match &arguments.action {
        Action::Start(arguments) => start::run(arguments),
        Action::List(arguments) => list::run(arguments),
        Action::Show(arguments) => Ok(show::run(arguments)?),
        Action::Cut(arguments) => cut::run(arguments),
        Action::Stop(arguments) => stop::run(arguments),
        Action::Serve(arguments) => serve::run(arguments),
    };
    #[cfg(not(target_os = "linux"))]
    match &arguments.action {
        Action::Show(arguments) => Ok(show::run(arguments)?),
        Action::Start(_) | Action::List(_) | Action::Cut(_) | Action::Stop(_) | Action::Serve(_) => {
            Err(anyhow::anyhow!("simulated devices need Linux").into())
        }
    }
}

/// The models of disks, as values of options.
pub(super) fn models() -> impl Iterator<Item = Word<&'static DiskModel>> {
    MODELS.iter().map(|model| (model.name, model.about, model))
}

/// Where a device is.
#[cfg(target_os = "linux")]
pub(super) fn place(state: &seekless_sim::device::DeviceState) -> String {
    use crate::show::visible_path;

    let device = state.block_device.as_deref().map(visible_path).unwrap_or_default();
    match (&state.mount_point, &state.file_system) {
        (Some(point), Some(file_system)) => format!("{file_system} at {} ({device})", visible_path(point)),
        _ => device,
    }
}

/// Takes down the devices whose servers died, and says so. It fails where nobody but root can see devices.
#[cfg(target_os = "linux")]
fn clear_stale() -> Result<(), Failure> {
    use seekless_sim::device::{DeviceError, take_down_stale};

    match take_down_stale() {
        Ok(names) => {
            for name in names {
                tracing::warn!("{}: its server had died; it was unmounted and removed", name.as_str());
            }
        }
        Err(error @ DeviceError::Missing(_)) => return Err(error.into()),
        // The next command tries again.
        Err(error) => tracing::warn!("cannot remove a device whose server had died: {error}"),
    }
    Ok(())
}
