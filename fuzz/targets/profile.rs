//! A profile: every document that is read can be asked about every size and written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekless_record::Profile;

fuzz_target!(|text: &[u8]| {
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
