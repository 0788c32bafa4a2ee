//! Catalogues: which files a machine has, with digests, for comparing them with files of other machines and of drives that are not
//! at hand.
//!
//! A catalogue is a file of Parquet with a row for each name of a regular file. Digests of files that did not change are taken
//! from an older catalogue; those of a run that was interrupted, from a journal beside it, which is a cache of digests.
//!
//! Not here: which files of which machines are equal (the package `seekless-fleet`).

mod elsewhere;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use seekless_engine::files::{FileId, FileState, open_own};
use seekless_engine::plan::FIRST_BYTES;
use seekless_sys::Access;

use super::act::copies::SearchOrigin;
use super::cache::{DigestCache, cache_of};
use super::digest::whole_digest;
use super::disk_order::look_at_devices;
use super::heads::{alike, all_heads};
use super::opened::sort_out;
use super::{Failed, Search, SearchOptions, distinct};
use crate::Stop;
use crate::walk::{Filter, Listed, Selection, Unlisted};
use crate::watch::{JobProgress, JobWatch};
pub use elsewhere::{CatalogueMatches, CatalogueName, Match, elsewhere, is_catalogue};
pub use rows::CatalogueError;
use rows::{CatalogueRow, RowReader, RowWriter};

/// How much is digested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Digests {
    /// The beginnings of all files, and the whole content of those of at most 4096 bytes, and of those whose size and beginning
    /// another file here has.
    #[default]
    First,
    /// The whole content of all files.
    All,
}

/// How a catalogue is made.
#[derive(Clone, Debug, Default)]
pub struct CatalogueOptions {
    /// The name under which the files are listed: that of this machine, or of a drive.
    pub host: String,
    /// How much is digested.
    pub digests: Digests,
    /// An older catalogue, whose digests of files that did not change are used.
    pub older: Option<PathBuf>,
    /// Whether files that were not in the page cache stay there.
    pub keeps_cached: bool,
}

/// What was catalogued.
#[derive(Debug, Default)]
pub struct Catalogued {
    /// Names of files.
    pub names: u64,
    /// Files.
    pub files: u64,
    /// Their sizes.
    pub bytes: u64,
    /// Files whose content was digested as a whole, now or earlier.
    pub digested: u64,
    /// How many of these digests were there already.
    pub known: u64,
    /// The bytes that were read.
    pub read_bytes: u64,
    /// What could not be read, and why.
    pub failures: Vec<Unlisted>,
    /// What changed meanwhile, and is missing.
    pub changed: Vec<Unlisted>,
    /// Whether it was stopped, so that nothing but the journal was written.
    pub is_stopped: bool,
}

/// `O_NOFOLLOW`
const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// How often digests are saved in the journal.
const SAVED_EVERY: Duration = Duration::from_secs(30);
/// Files that are digested as a whole between two looks at the time.
const WHOLE: usize = 1 << 10;

/// Writes a catalogue of the files below the paths of a selection, which are those of `origin`, to a file, which is replaced if it is
/// a catalogue.
///
/// # Errors
/// If it cannot be written, or another file has its name.
pub fn write(
    selection: &Selection,
    filter: &Filter,
    options: &CatalogueOptions,
    written: (&Path, SearchOrigin),
    watch: &dyn JobWatch,
) -> Result<Catalogued, CatalogueError> {
    write_at(selection, filter, options, written, watch, SystemTime::now())
}

/// As [`write`], at this time: digests are used again only of files that changed some time before it.
fn write_at(
    selection: &Selection,
    filter: &Filter,
    options: &CatalogueOptions,
    (output, origin): (&Path, SearchOrigin),
    watch: &dyn JobWatch,
    now: SystemTime,
) -> Result<Catalogued, CatalogueError> {
    let failed = |reason: &dyn std::fmt::Display| CatalogueError::of(output, "write", reason);
    if fs::symlink_metadata(output).is_ok_and(|found| !found.is_file() || !is_catalogue(output)) {
        return Err(failed(&"it exists and is not a catalogue; it is not overwritten"));
    }
    let [journal, part] = [".journal", ".part"].map(|extension| beside(output, extension));
    let (out, was_killed) = reserved(&part).map_err(|error| CatalogueError::of(&part, "write", &error))?;
    let is_ours = was_killed || fs::symlink_metadata(&journal).is_err();
    let written = DigestCache::open(&journal, now)
        .or_else(|reason| {
            // A kill or a full disk while it was made leaves one that cannot be opened.
            let is_removed = is_ours && fs::remove_file(&journal).is_ok();
            if is_removed && was_killed {
                DigestCache::open(&journal, now)
            } else {
                Err(reason)
            }
        })
        .map_err(|reason| failed(&format!("{reason}; remove {} to start over", journal.display())))
        .and_then(|cache| {
            let own = [&journal, &part].map(|path| fs::metadata(path).map(|found| FileState::of(&found).id()).ok());
            fill((selection, filter, origin), options, cache, &own, (&out, output), watch)
        });
    let written = written.and_then(|sum| {
        if !sum.is_stopped {
            // As long as the part has its name, no other run begins.
            let _ = fs::remove_file(&journal);
            persist(&out, &part, output).map_err(|error| failed(&error))?;
        }
        Ok(sum)
    });
    if !written.as_ref().is_ok_and(|sum| !sum.is_stopped) {
        let _ = fs::remove_file(&part);
    }
    written
}

/// Makes a file that becomes a catalogue, and keeps other runs out as long as it is open. One that a killed run left is replaced, and
/// told.
fn reserved(part: &Path) -> io::Result<(File, bool)> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600).custom_flags(NO_LINK);
    let left = options.open(part).ok();
    if let Some(left) = &left {
        // Locked until the new one is: meanwhile, another run may have given it its name, or replaced it.
        locked(left)?;
        if FileState::of(&left.metadata()?).id() != FileState::of(&fs::symlink_metadata(part)?).id() {
            return Err(io::Error::other("another run is writing it"));
        }
        if !RowReader::is_begun(left) {
            return Err(io::Error::other(
                "it exists and no interrupted run made it; move it away",
            ));
        }
        fs::remove_file(part)?;
    }
    let made = options.create_new(true).open(part)?;
    locked(&made)?;
    Ok((made, left.is_some()))
}

fn locked(file: &File) -> io::Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other("another run is writing it"),
        TryLockError::Error(error) => error,
    })
}

/// Lists files and writes their rows.
fn fill(
    (selection, filter, origin): (&Selection, &Filter, SearchOrigin),
    options: &CatalogueOptions,
    mut cache: DigestCache,
    own: &[Option<FileId>],
    (out, output): (&File, &Path),
    watch: &dyn JobWatch,
) -> Result<Catalogued, CatalogueError> {
    if let Some(older) = &options.older {
        take_over(&mut cache, older, watch.stop())?;
    }
    let (process, plan) = super::planned();
    let found = super::Files::list(selection, filter, false, &plan.batch, watch);
    let (mut numbers, names) = distinct(&found.files);
    numbers.retain(|number| !own.contains(&Some(found.files.get(*number).id())));
    let search_options = SearchOptions {
        keeps_cached: options.keeps_cached,
        ..SearchOptions::default()
    };
    let mut search = Search::new(
        &found.files,
        (process, plan),
        &search_options,
        watch,
        names,
        Some(cache),
    );
    search.digests_small = true;
    let mut catalogue = Catalogue {
        search,
        host: &options.host,
        started: jiff::Timestamp::now(),
        origin,
        saved: Instant::now(),
        failed: Vec::new(),
        unkept: HashSet::new(),
        sum: Catalogued::default(),
    };
    let filled = catalogue.fill(numbers, options.digests, out);
    let Catalogue {
        search,
        failed,
        mut sum,
        ..
    } = catalogue;
    search.save();
    filled.map_err(|error| CatalogueError::of(output, "write", &error))?;
    sum.is_stopped = watch.stop().is_stopped();
    sum.read_bytes = search.read_bytes.load(Ordering::Relaxed);
    (sum.changed, sum.failures) = sort_out(&search, failed, found.gone, found.failures);
    Ok(sum)
}

/// Gives a complete catalogue its name, and the permissions of the older one.
fn persist(out: &File, part: &Path, output: &Path) -> io::Result<()> {
    if let Ok(older) = fs::symlink_metadata(output) {
        out.set_permissions(Permissions::from_mode(older.permissions().mode() & 0o644))?;
    }
    out.sync_all()?;
    fs::rename(part, output)?;
    let above = output.parent().filter(|above| !above.as_os_str().is_empty());
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

/// The path of a file that a catalogue needs until it is complete.
fn beside(output: &Path, extension: &str) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(extension);
    name.into()
}

/// Keeps the digests of an older catalogue.
fn take_over(cache: &mut DigestCache, older: &Path, stop: &Stop) -> Result<(), CatalogueError> {
    let failed = |reason: &dyn std::fmt::Display| CatalogueError::of(older, "use", reason);
    // Its digests are trusted.
    let file = open_own(older, Access::Read).map_err(|error| failed(&error))?;
    let reader = RowReader::of(file).map_err(|error| failed(&error))?;
    let reader = reader.ok_or_else(|| failed(&"it is not a catalogue"))?;
    let columns = [
        "storage",
        "inode",
        "size",
        "mtime_ns",
        "changed_ns",
        "settled",
        "first",
        "blake3",
    ];
    let imported = cache.import(|add| {
        reader.rows(&columns, stop, |row| {
            let version = (row.bytes, row.modified_ns, row.changed_ns);
            let storage = u64::from_str_radix(&row.storage, 16).ok();
            if let Some(storage) = storage.filter(|_| row.is_settled) {
                add((storage, row.inode), version, (row.first, row.blake3));
            }
        })?;
        Ok(())
    });
    imported.map_err(|error| failed(&error))
}

struct Catalogue<'a> {
    search: Search<'a>,
    host: &'a str,
    started: jiff::Timestamp,
    /// By which plans for these files are made elsewhere.
    origin: SearchOrigin,
    saved: Instant,
    failed: Vec<Failed>,
    /// Files whose digests may not be used later.
    unkept: HashSet<u32>,
    sum: Catalogued,
}

impl Catalogue<'_> {
    fn fill(
        &mut self,
        mut numbers: Vec<u32>,
        digests: Digests,
        out: &File,
    ) -> Result<(), parquet::errors::ParquetError> {
        look_at_devices(&mut self.search, &mut numbers);
        let saved = &mut self.saved;
        let found = all_heads(&mut self.search, &numbers, |search| search.save_sometimes(saved));
        self.failed.extend(found.failed);
        self.unkept.extend(found.unkept);
        let mut firsts = vec![None; self.search.files.len() as usize];
        for (digest, number) in &found.digests {
            firsts[*number as usize] = Some(*digest);
        }
        let mut small: Vec<(u32, blake3::Hash)> = found.small;
        small.sort_unstable_by_key(|(number, _)| *number);
        let is_small = |number: &u32| self.search.files.get(*number).bytes <= FIRST_BYTES as u64;
        let mut is_wanted: Vec<bool> = (0..firsts.len() as u32)
            .map(|number| digests == Digests::All || is_small(&number))
            .collect();
        for number in alike(&self.search, vec![found.digests]).into_iter().flatten() {
            is_wanted[number as usize] = true;
        }
        let mut writer = RowWriter::new(BufWriter::new(out))?;
        // Files whose beginnings could not be read are missing.
        numbers.retain(|number| firsts[*number as usize].is_some());
        let bytes = |number: &u32| self.search.files.get(*number).bytes;
        let wanted = |number: &&u32| is_wanted[**number as usize];
        let of_bytes: u64 = numbers.iter().filter(wanted).map(bytes).sum();
        let mut done = 0;
        for chunk in numbers.chunks(WHOLE) {
            let whole: Vec<u32> = chunk.iter().filter(wanted).copied().collect();
            let digest = |number: &u32| match small.binary_search_by_key(number, |(number, _)| *number) {
                Ok(at) => Ok((small[at].1, false)),
                Err(_) => whole_digest(&self.search, *number),
            };
            let mut whole = self.search.map(&whole, digest).into_iter();
            if self.search.stop.is_stopped() {
                break;
            }
            for number in chunk {
                let digest = is_wanted[*number as usize].then(|| whole.next()).flatten();
                self.add(&mut writer, *number, firsts[*number as usize], digest)?;
            }
            done += chunk
                .iter()
                .filter(wanted)
                .map(|number| self.search.files.get(*number).bytes)
                .sum::<u64>();
            let progress = JobProgress::of_bytes(done, Some(of_bytes));
            self.search.watch.progress(&progress);
            self.search.save_sometimes(&mut self.saved);
        }
        let roots: Vec<PathBuf> = self.origin.paths();
        let roots: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
        writer.finish([
            ("host", self.host.to_owned()),
            ("roots", serde_json::json!(roots).to_string()),
            ("started", self.started.to_string()),
            ("origin", self.origin.write(serde_json::json!({})).to_string()),
        ])
    }

    fn add(
        &mut self,
        writer: &mut RowWriter<BufWriter<&File>>,
        number: u32,
        first: Option<u64>,
        whole: Option<io::Result<(blake3::Hash, bool)>>,
    ) -> Result<(), parquet::errors::ParquetError> {
        let blake3 = match whole.transpose() {
            Ok(whole) => whole,
            Err(error) => {
                self.failed.push((number, error));
                return Ok(());
            }
        };
        let listed = *self.search.files.get(number);
        self.sum.files += 1;
        self.sum.bytes += listed.bytes;
        self.sum.digested += u64::from(blake3.is_some());
        self.sum.known += u64::from(blake3.is_some_and(|(_, is_known)| is_known));
        let is_kept = self.search.is_settled(number) && !self.unkept.contains(&number);
        let row = CatalogueRow {
            host: self.host.to_owned(),
            storage: self.search.storage_of(number),
            device: listed.device,
            inode: listed.inode,
            path: Vec::new(),
            bytes: listed.bytes,
            modified_ns: listed.modified_ns,
            changed_ns: listed.changed_ns,
            is_settled: is_kept,
            links: listed.links(),
            first,
            blake3: blake3.map(|(digest, _)| *digest.as_bytes()),
        };
        for name in self.search.names_of(number) {
            let path = self.search.files.path(name);
            let path = std::path::absolute(&path).unwrap_or(path);
            self.sum.names += 1;
            writer.push(CatalogueRow {
                path: path.as_os_str().as_bytes().to_vec(),
                ..row.clone()
            })?;
        }
        Ok(())
    }
}

impl Search<'_> {
    /// Saves digests in the cache. A failure costs only time later.
    fn save(&self) {
        if let Some(cache) = &self.cache {
            let _ = cache.save(self.files);
        }
    }

    fn save_sometimes(&self, saved: &mut Instant) {
        if saved.elapsed() > SAVED_EVERY {
            self.save();
            *saved = Instant::now();
        }
    }

    /// Whether the file last changed long enough ago that another change would be seen.
    fn is_settled(&self, number: u32) -> bool {
        cache_of(self, number).is_some_and(|cache| cache.is_settled(self.files.get(number)))
    }

    /// The name of the file system of a file: by its identity, if it has one.
    fn storage_of(&self, number: u32) -> String {
        let Listed { state, .. } = *self.files.get(number);
        let identity = cache_of(self, number).and_then(|cache| cache.system(state.device));
        identity.map_or_else(
            || format!("device {:x}", state.device),
            |identity| format!("{identity:016x}"),
        )
    }
}
