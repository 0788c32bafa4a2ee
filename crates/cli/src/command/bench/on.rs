//! `seekless bench --on MODEL`: a simulated disk for the time of a run.

use std::path::PathBuf;

use seekless_lab::Bench;
use seekless_sim::models::DiskModel;

use crate::signals::CaughtSignal;

/// A simulated disk with ext4; it is taken down when this is dropped.
pub struct SimulatedDisk {
    #[cfg(target_os = "linux")]
    name: seekless_sim::device::DeviceName,
    mount_point: PathBuf,
}

impl SimulatedDisk {
    /// Starts the disk of `--on`, if any, and lets the bench measure there.
    pub fn of(
        model: Option<&'static DiskModel>,
        bench: &mut Bench,
        caught: &CaughtSignal,
    ) -> anyhow::Result<Option<Self>> {
        let disk = model.map(|model| Self::start(model, caught)).transpose()?;
        if let Some(disk) = &disk {
            bench.directories = vec![disk.mount_point.clone()];
        }
        Ok(disk)
    }

    #[cfg(not(target_os = "linux"))]
    fn start(_model: &'static DiskModel, _caught: &CaughtSignal) -> anyhow::Result<Self> {
        anyhow::bail!("simulated disks need Linux")
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use seekless_sim::device::{DeviceOptions, start, stop};

    use super::{CaughtSignal, DiskModel, SimulatedDisk};
    use crate::command::sim;

    /// Room for the largest files of an experiment.
    const SIZE_BYTES: u64 = 8 << 30;

    impl SimulatedDisk {
        /// Starts one, unless a signal was caught.
        pub(super) fn start(model: &'static DiskModel, caught: &CaughtSignal) -> anyhow::Result<Self> {
            let options = DeviceOptions {
                // Runs on one model are sittings on one storage.
                has_fixed_uuid: true,
                ..DeviceOptions::new(model, SIZE_BYTES, "ext4")
            };
            let (name, state) = start(&options, sim::server, &|| caught.signal().is_some())?;
            let mount_point = state.mount_point.unwrap_or_default();
            Ok(Self { name, mount_point })
        }
    }

    impl Drop for SimulatedDisk {
        fn drop(&mut self) {
            if let Err(error) = stop(&self.name, true) {
                let name = self.name.as_str();
                tracing::warn!("cannot take down the simulated disk: {error}; `seekless sim stop {name}` does it");
            }
        }
    }
}
