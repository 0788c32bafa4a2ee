//! The run inside its page: compressed, in an address that a link saves without any script.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{Markup, html};
use seekless_record::{DocumentError, Run};

/// A run as it goes into the page.
pub(super) struct Raw {
    base64: String,
    bytes: usize,
    compressed_bytes: usize,
}

/// The document of a run, compressed: tens of thousands of trials repeat the same names.
pub(super) fn raw(run: &Run) -> Result<Raw, DocumentError> {
    let text = seekless_record::to_json(run)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let compressed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    let compressed = compressed.map_err(serde_json::Error::io)?;
    Ok(Raw {
        base64: BASE64_STANDARD.encode(&compressed),
        bytes: text.len(),
        compressed_bytes: compressed.len(),
    })
}

/// The link. The page's script turns what it saves into plain JSON.
pub(super) fn link(raw: &Raw, run: &Run) -> Markup {
    let kib = |bytes: usize| bytes.div_ceil(1024);
    html! {
        p {
            a.button id="raw" download={(file_name(&run.id)) ".json.gz"} href={"data:application/gzip;base64," (raw.base64)} {
                "Save the run"
            }
            " Every sample, as JSON (" (kib(raw.bytes)) " KiB; " (kib(raw.compressed_bytes))
            " KiB as .json.gz, which is what is saved without scripts). It is inside this page."
        }
    }
}

/// A file's name from a run's: nothing that a system gives a meaning to.
fn file_name(id: &str) -> String {
    let is_plain = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '+');
    let name: String = id.chars().filter(is_plain).take(120).collect();
    if name.is_empty() { "run".to_owned() } else { name }
}
