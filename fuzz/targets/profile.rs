//! A profile: every document that is read can be asked about every size and written again, and its lines are read one by one, too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekless_record::{Curve, Profile, ProfileHead};

fuzz_target!(|text: &[u8]| {
    // A plan reads the head first, then the lines that it needs.
    if let Ok((_, lines)) = ProfileHead::from_text(text) {
        for (index, line) in lines.split(|byte| *byte == b'\n').enumerate() {
            if let Ok(curve) = Curve::from_line(line, index) {
                assert!(line.starts_with(curve.conditions.line_start().as_bytes()));
            }
        }
    }
    let Ok(profile) = Profile::from_text(text) else { return };
    for curve in &profile.curves {
        for bytes in (0..64).map(|doubling| 1 << doubling) {
            if let Some(time) = curve.at(bytes) {
                assert!(!time.log_seconds.is_nan() && time.error >= 0.0, "{bytes}");
            }
        }
    }
    let written = profile.to_text().unwrap();
    assert_eq!(Profile::from_text(written.as_bytes()).unwrap(), profile);
});
