//! The run inside its page: compressed, in a data URL that a link saves without a script.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{Markup, html};
use seekless_record::{DocumentError, Run};

/// The link to the document of a run, under the name that goes with `id`. It is compressed: tens of thousands of trials
/// repeat the same names. The page's script turns what it saves into plain JSON.
pub(super) fn link(run: &Run, id: &str) -> Result<Markup, DocumentError> {
    let text = seekless_record::to_json(run)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let compressed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    let compressed = compressed.map_err(serde_json::Error::io)?;
    let base64 = BASE64_STANDARD.encode(&compressed);
    let kib = |bytes: usize| bytes.div_ceil(1024);
    Ok(html! {
        p {
            a.button id="raw" download={(file_name(id)) ".json.gz"} href={"data:application/gzip;base64," (base64)} {
                "Save the run"
            }
            " Every sample, as JSON (" (kib(text.len())) " KiB; " (kib(compressed.len()))
            " KiB as .json.gz, which is what is saved without scripts). It is inside this page."
        }
    })
}

/// The link to the document of a run on a site.
pub(super) fn address(document: &str) -> Markup {
    html! { p { a.button href=(document) { "The run as JSON" } " Every sample." } }
}

/// A file name from a run's ID, without special characters.
fn file_name(id: &str) -> String {
    let is_plain = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '+');
    let name: String = id.chars().filter(is_plain).take(120).collect();
    if name.is_empty() { "run".to_owned() } else { name }
}
