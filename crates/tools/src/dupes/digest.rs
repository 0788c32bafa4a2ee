//! Comparing files by digests: more of them than may be open side by side, and those whose digests are kept.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use seekless_engine::files::{DIGESTED_HOLE_BYTES_MAX, read_full};
use seekless_sys::lock_mutex;

use super::cache::{cache_of, may_keep};
use super::opened::{Open, cause, check, drop_read, layout, member, open, unread};
use super::{Class, Failed, Member, Proof, Search};
use crate::disk_order::resident_bytes;

/// The digest of a file.
pub(super) struct Digested {
    digest: blake3::Hash,
    member: Member,
    proof: Proof,
}

/// Classes of files with equal digests.
pub(super) fn digest(search: &Search<'_>, group: &[u32], failed: &mut Vec<Failed>) -> Vec<Class> {
    let digests = search.map(group, |number| digest_of(search, *number));
    if search.stop.is_stopped() {
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

pub(super) fn digest_of(search: &Search<'_>, number: u32) -> io::Result<Digested> {
    let Open { file, own_bytes, .. } = open(search, number)?;
    let listed = search.files.get(number);
    let cache = cache_of(search, number);
    let kept = cache.and_then(|cache| cache.content(number, listed));
    // If the digest of the beginning was in the cache, `cold` may lack the file.
    let may_be_cold = kept.is_none() && cache.is_some() && !search.options.keeps_cached;
    let is_cold = search.cold().contains(&number) || may_be_cold && resident_bytes(&file) == Some(0);
    let digest = kept.map_or_else(|| read_digest(search, number, &file, own_bytes), Ok);
    // With `is_paranoid`, it is read again to compare bytes.
    if is_cold && !search.options.is_paranoid {
        drop_read(search, &file, listed.bytes);
    }
    Ok(Digested {
        digest: digest?,
        member: member(search, number, own_bytes),
        proof: kept.map_or(Proof::Blake3, |_| Proof::Cached),
    })
}

/// The digest of a file, and whether it was known.
pub(super) fn whole_digest(search: &Search<'_>, number: u32) -> io::Result<(blake3::Hash, bool)> {
    let kept = cache_of(search, number).and_then(|cache| cache.content(number, search.files.get(number)));
    if let Some(kept) = kept {
        return Ok((kept, true));
    }
    let found = digest_of(search, number)?;
    Ok((found.digest, found.proof == Proof::Cached))
}

/// The digest of an open file, which is read unless it shares all blocks with one that was.
fn read_digest(search: &Search<'_>, number: u32, file: &File, own_bytes: u64) -> io::Result<blake3::Hash> {
    let listed = search.files.get(number);
    let layout = layout(search, number, file);
    if listed.bytes.saturating_sub(own_bytes) > DIGESTED_HOLE_BYTES_MAX && layout.is_none() {
        return Err(io::Error::other("has more than 1 TiB of holes, too many to digest"));
    }
    let layouts = || lock_mutex(&search.layouts);
    if let Some(digest) = layout.as_ref().and_then(|layout| layouts().get(layout).copied()) {
        check(search, number, file)?;
        return Ok(digest);
    }
    let may_keep = may_keep(search, number, file);
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; search.plan.blocks_bytes[1].min(listed.bytes as usize)];
    let mut at = 0;
    while at < listed.bytes && !search.stop.is_stopped() {
        let read = read_full(file, &mut buffer, at);
        let length = read.map_err(|error| cause(search, number, file, unread(at, &error)))?;
        if length == 0 {
            break;
        }
        search.read_bytes.fetch_add(length as u64, Ordering::Relaxed);
        hasher.update(&buffer[..length]);
        at += length as u64;
    }
    check(search, number, file)?;
    let digest = hasher.finalize();
    if at >= listed.bytes {
        if let Some(cache) = cache_of(search, number).filter(|_| may_keep) {
            cache.add_content(number, digest);
        }
        if let Some(layout) = layout {
            layouts().insert(layout, digest);
        }
    }
    Ok(digest)
}
