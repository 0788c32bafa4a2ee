//! What tells a device from others of its model: a serial number, and the UUID of a file system that is the same each time.

use std::path::Path;

use super::{DeviceName, DeviceState, devices};

/// The UUID of a file system that is made for a while: the same for the same model, type, size and seed, so that a later run on such a
/// device is a later sitting on the same storage. `None`, for a random one, if another device has it now, or if the type is btrfs: the
/// kernel remembers the devices of a UUID after they have ended.
pub(super) fn fixed_uuid(state: &DeviceState) -> Option<String> {
    let file_system = state.file_system.as_deref().filter(|name| *name != "btrfs")?;
    let uuid = uuid_of(&state.model, file_system, state.size_bytes, state.seed);
    let others = devices().unwrap_or_default();
    let mut others = others.iter().filter_map(|name| name.state().ok()?.uuid);
    let is_taken = others.any(|other| other == uuid) || Path::new("/dev/disk/by-uuid").join(&uuid).exists();
    (!is_taken).then_some(uuid)
}

fn uuid_of(model: &str, file_system: &str, size_bytes: u64, seed: u64) -> String {
    let bits = digest(&format!("{model} {file_system} {size_bytes} {seed}"));
    // Version 8: made by a rule of one's own (RFC 9562).
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x8 << 76 | 0x2 << 62;
    let digits = format!("{bits:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

/// The serial number of a device: the same each time for a backing file and for a fixed UUID, otherwise its own.
pub(super) fn serial(name: &DeviceName, state: &DeviceState) -> String {
    let text = match (&state.uuid, &state.backing) {
        (Some(uuid), _) => uuid.clone(),
        (None, Some(path)) => path.display().to_string(),
        (None, None) => format!("{} {} {}", name.as_str(), state.started_at, state.starter),
    };
    format!("{:016x}", digest(&text) as u64)
}

/// FNV-1a of 128 bits, which every build computes alike.
fn digest(text: &str) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    text.bytes()
        .fold(start, |bits, byte| (bits ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::tests::{state, with};
    use super::*;

    #[test]
    fn a_fixed_uuid_follows_from_model_type_size_and_seed() {
        let uuid = uuid_of("hdd-2009", "ext4", 8 << 30, 1);
        assert_eq!(uuid, "b6ed3da4-9725-8bf2-9762-9839c45be32b", "as every build makes it");
        for other in [
            uuid_of("hdd-2008", "ext4", 8 << 30, 1),
            uuid_of("hdd-2009", "xfs", 8 << 30, 1),
            uuid_of("hdd-2009", "ext4", 4 << 30, 1),
            uuid_of("hdd-2009", "ext4", 8 << 30, 2),
        ] {
            assert_ne!(other, uuid);
            assert!(other.len() == 36 && &other[14..15] == "8", "{other}");
            assert!("89ab".contains(&other[19..20]), "{other}");
        }
    }

    #[test]
    fn identity_serials_differ_unless_file_or_uuid_is_one() {
        let serial = |name: &str, state: &DeviceState| serial(&DeviceName::new(name).unwrap(), state);
        let later = |state: DeviceState| DeviceState {
            started_at: 9,
            starter: 7,
            ..state
        };
        assert_ne!(serial("null", &state()), serial("null-2", &state()));
        assert_ne!(serial("null", &state()), serial("null", &later(state())));
        let on = |path: &str| with(|state| state.backing = Some(PathBuf::from(path)));
        assert_eq!(serial("null", &on("/a")), serial("null-2", &later(on("/a"))));
        assert_ne!(serial("null", &on("/a")), serial("null", &on("/b")));
        let fixed = with(|state| state.uuid = Some(uuid_of("null", "ext4", 1 << 30, 1)));
        assert_eq!(serial("null", &fixed), serial("null-2", &later(fixed.clone())));
    }
}
