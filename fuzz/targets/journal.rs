//! The journal of an update: records, or an error; never more than was in it, and no update without what was there before.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekless_engine::update::read_journal;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(records) = read_journal(bytes) {
        let mut held = 0;
        for (_, after, before) in records {
            assert_eq!(after.len(), before.len());
            held += after.len() + before.len();
        }
        assert!(held < bytes.len(), "{held} of {} bytes", bytes.len());
    }
});
