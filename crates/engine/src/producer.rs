//! Who makes the bytes of a write.

/// Makes the bytes of a write. Blocks may be asked for in any order and more than once.
pub trait Producer: Sync {
    /// Puts into `bytes` what belongs at `offset`.
    fn produce(&self, offset: u64, bytes: &mut [u8]);
}

impl<F: Fn(u64, &mut [u8]) + Sync> Producer for F {
    fn produce(&self, offset: u64, bytes: &mut [u8]) {
        self(offset, bytes);
    }
}

impl Producer for &[u8] {
    /// The bytes themselves; zeros behind their end.
    fn produce(&self, offset: u64, bytes: &mut [u8]) {
        let start = self.len().min(offset as usize);
        let have = bytes.len().min(self.len() - start);
        bytes[..have].copy_from_slice(&self[start..start + have]);
        bytes[have..].fill(0);
    }
}
