//! The receipts of runs that were shared. They hold the secrets by which runs are withdrawn, so only their user can read them.

use std::path::{Path, PathBuf};

use seekless_engine::files::{open_own, read_within};
use seekless_sys::Access;
use serde::{Deserialize, Serialize};

use super::{Origin, Store, StoreError, list, make_directory, malformed, remove_if_there, system, write_as_new};

/// The largest receipt that is read.
const MAX_RECEIPT_BYTES: u64 = 64 << 10;

/// The receipt of a run that was sent to a hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedRun {
    /// The address of the hub.
    pub hub: String,
    /// The ID of the run here.
    pub run: String,
    /// The ID of the run there.
    pub id: String,
    /// By which it can be withdrawn.
    pub secret: String,
    /// When it was sent.
    pub shared: String,
}

impl Store {
    /// Keeps a receipt, and returns its file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_receipt(&self, receipt: &SharedRun) -> Result<PathBuf, StoreError> {
        let directory = self.directory.join("shared");
        make_directory(&directory)?;
        let text = serde_json::to_vec_pretty(receipt).map_err(|error| malformed(&directory)(error.into()))?;
        write_as_new(&directory, &super::file_name(&receipt.id), &text)
    }

    /// The receipts of a run by its ID here or there, or all of them, the newest first, each with its file.
    ///
    /// # Errors
    /// If none is found, and one cannot be read or another user can have written it.
    pub fn receipts(&self, id: Option<&str>) -> Result<Vec<(PathBuf, SharedRun)>, StoreError> {
        let (mut receipts, mut unusable) = (Vec::new(), None);
        for document in list(&self.directory.join("shared"), Origin::File)? {
            let path = document.path;
            let own = open_own(&path, Access::Read).and_then(|file| read_within(file, MAX_RECEIPT_BYTES));
            let text = own.map_err(system(&path, "use the receipt"));
            let receipt = text.and_then(|text| {
                let receipt = serde_json::from_slice::<SharedRun>(&text);
                receipt.map_err(|error| malformed(&path)(error.into()))
            });
            match receipt {
                Ok(receipt) if id.is_none_or(|id| receipt.id == id || receipt.run == id) => {
                    receipts.push((path, receipt));
                }
                Ok(_) => {}
                Err(error) => unusable = Some(error),
            }
        }
        if let Some(error) = unusable.filter(|_| receipts.is_empty()) {
            return Err(error);
        }
        receipts.sort_by(|one, other| other.1.shared.cmp(&one.1.shared));
        Ok(receipts)
    }

    /// Removes the file of a receipt.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget_receipt(&self, path: &Path) -> Result<(), StoreError> {
        remove_if_there(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn receipts_are_private_and_found_by_either_id_the_newest_first() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::new(place.path().join("data"));
        assert_eq!(store.receipts(None).unwrap(), []);
        let receipt = |id: &str, day: u32| SharedRun {
            hub: "https://hub.example.org".to_owned(),
            run: "2026-11-20-read".to_owned(),
            id: id.to_owned(),
            secret: "5e".repeat(32),
            shared: format!("2026-11-{day:02}T10:00:00Z"),
        };
        let (older, newer) = (receipt("b", 20), receipt("a", 21));
        for one in [&newer, &older] {
            let path = store.keep_receipt(one).unwrap();
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let ids = |id: Option<&str>| {
            store
                .receipts(id)
                .unwrap()
                .into_iter()
                .map(|found| found.1)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(None), [newer.clone(), older.clone()]);
        assert_eq!(ids(Some("2026-11-20-read")).len(), 2);
        assert_eq!(ids(Some("b")), [older]);
        let (path, _) = store.receipts(Some("b")).unwrap().remove(0);
        store.forget_receipt(&path).unwrap();
        assert_eq!(ids(None), [newer]);
        let (path, _) = store.receipts(None).unwrap().remove(0);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(store.receipts(None).is_err(), "others can have written it");
    }
}
