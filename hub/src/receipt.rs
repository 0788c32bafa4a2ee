//! What the client and the server say to each other about a run that is sent.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The header by which the sender of a run may withdraw it later: the BLAKE3 of a secret, in hexadecimal digits. The sender makes the
/// secret, and so has it even if no answer arrives.
pub const WITHDRAWAL: &str = "seekless-withdrawal";

/// What a hub is told, and keeps, of a secret.
pub fn hidden(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

/// The name of a text: the first half of its BLAKE3, in hexadecimal digits. That of an anonymous document is the ID of a run.
pub fn digest(text: &[u8]) -> String {
    blake3::hash(text).to_hex()[..32].to_owned()
}

/// Whether a text has so many hexadecimal digits and nothing else.
pub fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What a hub answers to a run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct Receipt {
    /// Its ID there: 32 hexadecimal digits of the digest of its document.
    pub id: String,
    /// Its page.
    pub url: String,
    /// Whether the secret whose digest was sent withdraws it; not if somebody sent the same run before.
    pub withdrawable: bool,
    /// Whether it counts in the hub's figures.
    pub counted: bool,
    /// Why it is kept apart.
    #[serde(default)]
    pub marks: Vec<String>,
}
