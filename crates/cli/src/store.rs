//! Where this user's runs are, and whether they are too many.

use anyhow::anyhow;
use etcetera::BaseStrategy;
use seekless_lab::runs::{Document, LIMIT_BYTES, Store};

use crate::show::bytes;

/// The store in the user's data folder.
pub fn open_store() -> anyhow::Result<Store> {
    let strategy = etcetera::choose_base_strategy().map_err(|error| anyhow!("there is no home folder: {error}"))?;
    Ok(Store::new(strategy.data_dir().join("seekless")))
}

/// What to say where the store holds more than it should.
pub fn too_large(documents: &[Document]) -> Option<String> {
    let held: u64 = documents.iter().map(|document| document.bytes).sum();
    (held > LIMIT_BYTES).then(|| {
        format!(
            "The saved runs take {}, more than {}: `seekless runs remove --down-to 500M` removes the oldest.",
            bytes(held as f64),
            bytes(LIMIT_BYTES as f64)
        )
    })
}
