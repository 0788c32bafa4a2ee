//! Producers, which make the bytes of a write.

use std::io;

/// Makes the bytes of a write. Blocks may be asked for in any order and more than once.
pub trait Producer: Sync {
    /// Fills `bytes` with the bytes that belong at `offset`.
    ///
    /// # Errors
    /// Any error ends the write with [`crate::Error::Producer`].
    fn produce(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
}

impl<F: Fn(u64, &mut [u8]) -> io::Result<()> + Sync> Producer for F {
    fn produce(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self(offset, bytes)
    }
}

impl Producer for &[u8] {
    /// The bytes themselves, and zeros past their end.
    fn produce(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = self.len().min(offset as usize);
        let have = bytes.len().min(self.len() - start);
        bytes[..have].copy_from_slice(&self[start..start + have]);
        bytes[have..].fill(0);
        Ok(())
    }
}
