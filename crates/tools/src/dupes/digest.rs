//! Comparing files by digests: more of them than may be open side by side, and those whose digests are kept.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use seekless::files::{DIGESTED_HOLE_BYTES_MAX, read_full};

use super::failures::unread;
use super::split::Open;
use super::{Class, Failed, Member, Proof, Search};
use crate::place::resident_bytes;

/// The digest of a file.
struct Digested {
    digest: blake3::Hash,
    member: Member,
    proof: Proof,
}

impl Search<'_> {
    /// Classes of files with equal digests.
    pub fn digest(&self, group: &[u32], failed: &mut Vec<Failed>) -> Vec<Class> {
        let digests = self.map(group, |number| self.digest_of(*number));
        if self.stop.is_stopped() {
            return Vec::new();
        }
        let mut classes: HashMap<blake3::Hash, Class> = HashMap::new();
        for (number, digest) in group.iter().zip(digests) {
            match digest {
                Ok(Digested { digest, member, proof }) => {
                    let class = classes.entry(digest).or_insert_with(|| Class {
                        proof,
                        files: Vec::new(),
                    });
                    class.files.push(member);
                    if proof == Proof::Cached {
                        class.proof = proof;
                    }
                }
                Err(error) => failed.push((*number, error)),
            }
        }
        classes.into_values().filter(|class| class.files.len() > 1).collect()
    }

    /// Whether a file is not read, because its digest was kept and is trusted.
    pub fn is_digest_kept(&self, number: u32) -> bool {
        let is_kept = || {
            let cache = self.cache_of(number);
            cache.is_some_and(|cache| cache.has_content(number, self.files.get(number)))
        };
        !self.options.is_paranoid && is_kept()
    }

    fn digest_of(&self, number: u32) -> io::Result<Digested> {
        let Open { file, own_bytes, .. } = self.open(number)?;
        let listed = self.files.get(number);
        let cache = self.cache_of(number);
        let kept = cache.and_then(|cache| cache.content(number, listed));
        // If the digest of the beginning was in the cache, `cold` may lack the file.
        let may_be_cold = kept.is_none() && cache.is_some() && !self.options.keeps_cached;
        let is_cold = self.cold().contains(&number) || may_be_cold && resident_bytes(&file) == Some(0);
        let digest = kept.map_or_else(|| self.read_digest(number, &file, own_bytes), Ok);
        // With `is_paranoid`, it is read again to compare bytes.
        if is_cold && !self.options.is_paranoid {
            self.drop_read(&file, listed.bytes);
        }
        Ok(Digested {
            digest: digest?,
            member: self.member(number, own_bytes),
            proof: kept.map_or(Proof::Blake3, |_| Proof::Cached),
        })
    }

    /// The digest of a file, and whether it was known.
    pub fn whole_digest(&self, number: u32) -> io::Result<(blake3::Hash, bool)> {
        let kept = self
            .cache_of(number)
            .and_then(|cache| cache.content(number, self.files.get(number)));
        if let Some(kept) = kept {
            return Ok((kept, true));
        }
        let found = self.digest_of(number)?;
        Ok((found.digest, found.proof == Proof::Cached))
    }

    /// The digest of an open file, which is read unless it shares all blocks with one that was.
    fn read_digest(&self, number: u32, file: &File, own_bytes: u64) -> io::Result<blake3::Hash> {
        let listed = self.files.get(number);
        let layout = self.layout(number, file);
        if listed.bytes.saturating_sub(own_bytes) > DIGESTED_HOLE_BYTES_MAX && layout.is_none() {
            return Err(io::Error::other("has more than 1 TiB of holes, too many to digest"));
        }
        let layouts = || self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = layout.as_ref().and_then(|layout| layouts().get(layout).copied()) {
            self.check(number, file)?;
            return Ok(digest);
        }
        let may_keep = self.may_keep(number, file);
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; self.plan.blocks_bytes[1].min(listed.bytes as usize)];
        let mut at = 0;
        while at < listed.bytes && !self.stop.is_stopped() {
            let read = read_full(file, &mut buffer, at);
            let length = read.map_err(|error| self.cause(number, file, unread(at, &error)))?;
            if length == 0 {
                break;
            }
            self.read_bytes.fetch_add(length as u64, Ordering::Relaxed);
            hasher.update(&buffer[..length]);
            at += length as u64;
        }
        self.check(number, file)?;
        let digest = hasher.finalize();
        if at >= listed.bytes {
            if let Some(cache) = self.cache_of(number).filter(|_| may_keep) {
                cache.add_content(number, digest);
            }
            if let Some(layout) = layout {
                layouts().insert(layout, digest);
            }
        }
        Ok(digest)
    }
}
