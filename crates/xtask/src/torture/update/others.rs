//! Those who are at the file at the same time as seekless, and what the system acknowledged to them.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Seek, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{XattrFlags, setxattr};

use super::plan::{Interference, Other};
use super::verdict::{Acknowledged, OthersWrite, Update};
use crate::torture::disturb::Bytes;

/// Between two writes: short beside the run of seekless.
const PAUSE: Duration = Duration::from_micros(500);

/// Opens the file if that is to be done before seekless starts.
pub fn open_first(other: &Other, path: &Path) -> Result<Option<File>> {
    let opened = other.opens_first.then(|| open(&other.action, path)).flatten();
    opened.transpose().context("cannot open the file for others")
}

fn open(action: &Interference, path: &Path) -> Option<std::io::Result<File>> {
    match action {
        Interference::Append(_) => Some(OpenOptions::new().append(true).open(path)),
        Interference::Write(_) => Some(OpenOptions::new().write(true).open(path)),
        _ => None,
    }
}

/// Does it. A call that fails is not acknowledged: nothing is said of it. An error is one of the harness.
pub fn act(
    other: &Other,
    opened: Option<File>,
    path: &Path,
    update: &dyn Fn(&[Update], &str) -> Result<Command>,
) -> Result<Acknowledged> {
    let opened = opened.or_else(|| open(&other.action, path).and_then(std::io::Result::ok));
    let mut done = Acknowledged::default();
    match (&other.action, opened) {
        (Interference::Append(lines), Some(mut file)) => {
            for number in 0..*lines {
                let line = format!("line {number} {}\n", "x".repeat(number % 7 * 11)).into_bytes();
                let written = file.write(&line).unwrap_or(0);
                let end = file.stream_position()? as usize;
                if written > 0 {
                    done.writes.push(OthersWrite {
                        update: Update {
                            offset: end - written,
                            bytes: line[..written].to_vec(),
                        },
                        is_certain: true,
                        is_append: true,
                    });
                }
                thread::sleep(PAUSE);
            }
        }
        (Interference::Write(writes), Some(file)) => {
            for write in writes {
                let written = file.write_all_at(&write.bytes, write.offset as u64);
                done.writes.push(OthersWrite {
                    update: write.clone(),
                    is_certain: written.is_ok(),
                    is_append: false,
                });
                thread::sleep(PAUSE);
            }
        }
        (Interference::Save(Bytes(content), mode), _) => {
            let new = path.with_extension("new");
            let written = OpenOptions::new().write(true).create_new(true).mode(*mode).open(&new);
            let is_saved = written
                .and_then(|mut file| file.write_all(content))
                .and_then(|()| fs::rename(&new, path))
                .is_ok();
            done.saved = is_saved.then(|| (content.clone(), *mode));
        }
        (Interference::Mode(mode), _) => {
            done.mode = fs::set_permissions(path, Permissions::from_mode(*mode))
                .is_ok()
                .then_some(*mode);
        }
        (Interference::Owner(owner), _) => done.owner = chown(path, Some(*owner), None).is_ok().then_some(*owner),
        (Interference::Attribute, _) => {
            let (name, value) = ("user.others".to_owned(), b"theirs".to_vec());
            let is_set = setxattr(path, &name, &value, XattrFlags::empty()).is_ok();
            done.attribute = is_set.then_some((name, value));
        }
        (Interference::Update(writes, safety), _) if !writes.is_empty() => {
            let status = update(writes, safety)?
                .stderr(Stdio::null())
                .status()
                .context("cannot start a second update")?;
            done.writes.extend(writes.iter().map(|write| OthersWrite {
                update: write.clone(),
                is_certain: status.success(),
                is_append: false,
            }));
        }
        _ => {}
    }
    Ok(done)
}

impl Acknowledged {
    /// How many calls were acknowledged.
    pub fn count(&self) -> usize {
        let others = [
            self.saved.is_some(),
            self.mode.is_some(),
            self.owner.is_some(),
            self.attribute.is_some(),
        ];
        self.writes.iter().filter(|write| write.is_certain).count()
            + others.into_iter().filter(|&is_done| is_done).count()
    }

    /// Whether a journal may be refused: the file was written to, or replaced, since.
    pub fn may_outdate_journal(&self) -> bool {
        !self.writes.is_empty() || self.saved.is_some()
    }
}
