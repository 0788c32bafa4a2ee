//! What an administrator does with the database, beside a running server or without one.

use std::io::{BufRead, Write};

use seekless_results::Known;
use serde::{Deserialize, Serialize};

use crate::accept::{Refusal, accept};
use crate::api::now;
use crate::dump::{Dumped, line};
use crate::store::{Added, News, Store, StoreError};

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be read or written.
    #[error("cannot read or write the dump")]
    File(#[from] std::io::Error),
    /// A line of a dump is damaged.
    #[error("line {line} of the dump is not one of `seekless-hub export`")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A run of a dump is not accepted.
    #[error("line {line} of the dump")]
    Refused {
        /// Which, from 1.
        line: usize,
        /// Why.
        source: Refusal,
    },
    /// The system gives it no threads.
    #[error("cannot start")]
    Start(#[source] std::io::Error),
}

/// A line of a dump for the administrator: a machine whose runs are refused. The other lines are runs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Banned {
    banned: String,
}

/// What a check of the database found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many runs there are.
    pub runs: usize,
    /// What is wrong, a sentence for each run.
    pub damaged: Vec<String>,
}

/// A database, opened for its administrator.
pub struct Admin {
    runtime: tokio::runtime::Runtime,
    store: Store,
}

impl Admin {
    /// Opens a database by its URL.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(url: &str) -> Result<Self, AdminError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(AdminError::Start)?;
        let store = runtime.block_on(Store::open(url))?;
        Ok(Self { runtime, store })
    }

    /// Removes a run; says whether it was there.
    ///
    /// # Errors
    /// If the database fails.
    pub fn remove(&self, id: &str) -> Result<bool, AdminError> {
        Ok(self.runtime.block_on(self.store.remove(id))?)
    }

    /// Removes all runs of the machine of a run, or of a machine by its name, and refuses further ones. Says how many there were.
    ///
    /// # Errors
    /// If the database fails.
    pub fn ban(&self, run_or_machine: &str) -> Result<(String, u64), AdminError> {
        self.runtime.block_on(async {
            let run = self.store.run(run_or_machine).await?;
            let machine = run.map_or_else(|| run_or_machine.to_owned(), |run| run.machine);
            let removed = self.store.ban(&machine).await?;
            Ok((machine, removed))
        })
    }

    /// Checks each run: that its document is whole, and that what is searched follows from it.
    ///
    /// # Errors
    /// If the database fails.
    pub fn verify(&self, known: &Known) -> Result<Verified, AdminError> {
        self.runtime.block_on(async {
            let mut verified = Verified::default();
            for stored in self.store.runs_between(0, self.store.counters().await?.added).await? {
                let sequence = stored.sequence;
                let News {
                    places, mut figures, ..
                } = self.store.news_between(sequence - 1, sequence).await?;
                for figure in &mut figures {
                    figure.run = 0;
                }
                let wrong = match self.store.document(&stored.id).await {
                    Ok(None) => continue,
                    Ok(Some(document)) => match accept(&document, known) {
                        Err(error) => Some(error.to_string()),
                        Ok(found) if found.id != stored.id => Some("its document has another digest".to_owned()),
                        Ok(found) if found.figures != figures || found.places != places => {
                            Some("its figures do not follow from its document".to_owned())
                        }
                        Ok(_) => None,
                    },
                    Err(StoreError::Damaged(_)) => Some("its document is damaged".to_owned()),
                    Err(error) => return Err(error.into()),
                };
                verified.runs += 1;
                verified
                    .damaged
                    .extend(wrong.map(|wrong| format!("{}: {wrong}", stored.id)));
            }
            Ok(verified)
        })
    }

    /// Writes everything as lines of JSON. Returns how many runs there were.
    ///
    /// # Errors
    /// If the database fails or the file cannot be written.
    pub fn export(&self, mut out: impl Write) -> Result<usize, AdminError> {
        self.runtime.block_on(async {
            for banned in self.store.bans().await? {
                let line = serde_json::to_string(&Banned { banned }).map_err(std::io::Error::from)?;
                writeln!(out, "{line}")?;
            }
            let mut runs = 0;
            for stored in self.store.runs_between(0, self.store.counters().await?.added).await? {
                if let Some(line) = line(&self.store, stored, true).await? {
                    out.write_all(&line)?;
                    runs += 1;
                }
            }
            out.flush()?;
            Ok(runs)
        })
    }

    /// Adds what [`Self::export`] wrote, or a dump of another hub. Returns how many runs are new.
    ///
    /// # Errors
    /// At the first line that is damaged or refused; the lines before it are added.
    pub fn import(&self, from: impl BufRead, known: &Known, is_own: bool) -> Result<usize, AdminError> {
        self.runtime.block_on(async {
            let mut added = 0;
            for (at, text) in from.lines().enumerate() {
                let line = at + 1;
                let text = text?;
                if let Ok(Banned { banned }) = serde_json::from_str(&text) {
                    if is_own {
                        self.store.ban(&banned).await?;
                    }
                    continue;
                }
                let dumped: Dumped = serde_json::from_str(&text).map_err(|source| AdminError::Line { line, source })?;
                let accepted = accept(dumped.document.get().as_bytes(), known);
                let mut accepted = accepted.map_err(|source| AdminError::Refused { line, source })?;
                // Another's dump decides neither what counts nor who can withdraw it.
                let (mut secret, mut received) = (String::new(), now());
                if is_own {
                    accepted.marks = dumped.marks;
                    (secret, received) = (dumped.secret.unwrap_or_default(), dumped.received_unix_seconds);
                }
                let result = self.store.add(&accepted, &secret, received, !is_own).await?;
                added += usize::from(matches!(result, Added::New(_)));
            }
            Ok(added)
        })
    }
}
