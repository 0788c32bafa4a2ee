//! Who makes the bytes of a write.

use std::io;

/// Makes the bytes of a write. Blocks may be asked for in any order and more than once.
pub trait Producer: Sync {
    /// Puts into `bytes` what belongs at `offset`.
    ///
    /// # Errors
    /// Whatever keeps it from doing so: the write ends with [`crate::Error::Producer`].
    fn produce(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
}

impl<F: Fn(u64, &mut [u8]) -> io::Result<()> + Sync> Producer for F {
    fn produce(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self(offset, bytes)
    }
}

impl Producer for &[u8] {
    /// The bytes themselves; zeros behind their end.
    fn produce(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = self.len().min(offset as usize);
        let have = bytes.len().min(self.len() - start);
        bytes[..have].copy_from_slice(&self[start..start + have]);
        bytes[have..].fill(0);
        Ok(())
    }
}
