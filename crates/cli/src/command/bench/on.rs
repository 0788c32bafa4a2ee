//! `seekless bench --on MODEL`: a simulated disk for the time of a run.

use std::path::{Path, PathBuf};

use seekless_sim::models::DiskModel;

use crate::signals::Caught;

/// A simulated disk with ext4; it is taken down when this is dropped.
pub struct SimulatedDisk {
    #[cfg(target_os = "linux")]
    name: seekless_sim::device::DeviceName,
    mount_point: PathBuf,
}

impl SimulatedDisk {
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    #[cfg(not(target_os = "linux"))]
    pub fn start(_model: &'static DiskModel, _caught: &Caught) -> anyhow::Result<Self> {
        anyhow::bail!("simulated disks need Linux")
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use seekless_sim::device::{DeviceOptions, FILE_SYSTEMS, require, start, stop};

    use super::{Caught, DiskModel, SimulatedDisk};
    use crate::command::sim;

    /// Room for the largest files of an experiment.
    const SIZE_BYTES: u64 = 8 << 30;

    impl SimulatedDisk {
        /// Starts one, unless a signal was caught.
        pub fn start(model: &'static DiskModel, caught: &Caught) -> anyhow::Result<Self> {
            let options = DeviceOptions {
                model,
                size_bytes: SIZE_BYTES,
                file_system: FILE_SYSTEMS.first(),
                mount_point: None,
                seed: 1,
                faults: None,
                speed: 1.0,
                backing: None,
                trace: None,
            };
            require(&options)?;
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
