//! What a hub answers to a run: the server writes it, and the client reads it.

use serde::{Deserialize, Serialize};

/// What a hub answers to a run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Receipt {
    /// Its ID there: 32 hexadecimal digits of the digest of its document.
    pub id: String,
    /// Its page.
    pub url: String,
    /// By which it can be withdrawn: 64 hexadecimal digits; `None` if the hub had the run already.
    pub secret: Option<String>,
    /// Whether it counts in the hub's figures.
    pub counted: bool,
    /// Why it is kept apart.
    #[serde(default)]
    pub marks: Vec<String>,
}
