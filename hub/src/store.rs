//! The database: `SQLite` by default, or `PostgreSQL`, by the same statements. Whatever is written is written in one transaction with the
//! counter of its kind first, so that writers wait for each other, and nothing is half stored.

use std::collections::{BTreeMap, HashSet};

use sqlx::any::{AnyPoolOptions, AnyRow};
use sqlx::{AnyConnection, AnyPool, FromRow, Row};

use crate::accept::{Accepted, COPIES, MAX_BYTES, with_mark};
use crate::figure::{Figure, Place, WORDS};
use crate::gzip::{compressed, decompressed};

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!();

/// The most connections to the database.
const MOST_CONNECTIONS: u32 = 8;

/// Why the database did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be opened.
    #[error("{url}: cannot open the database; give sqlite:FILE or postgres://USER@HOST/DATABASE")]
    Open {
        /// Which.
        url: String,
        /// Why not.
        source: sqlx::Error,
    },
    /// Its tables are not those of this version.
    #[error("cannot bring the tables of the database up to date")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// It failed.
    #[error("the database failed")]
    Failed(#[from] sqlx::Error),
    /// What it holds is damaged.
    #[error("run {0}: the stored document is damaged")]
    Damaged(String),
}

type Result<T> = std::result::Result<T, StoreError>;

/// A database of runs.
#[derive(Clone, Debug)]
pub struct Store {
    pool: AnyPool,
}

/// A run as it is stored, without its document.
#[derive(Clone, Debug, PartialEq, FromRow)]
pub struct Stored {
    /// Its place in the order in which runs came.
    pub sequence: i64,
    /// The digest of its document.
    pub id: String,
    /// When it came, in seconds since 1970.
    pub received_unix_seconds: i64,
    /// The day on which it was measured.
    pub day: String,
    /// Which machine it is of.
    pub machine: String,
    /// Why it does not count, with commas between; empty if it does.
    pub marks: String,
    /// The digest of its secret.
    pub secret: String,
}

/// What came since.
#[derive(Debug, Default)]
pub struct News {
    /// The runs, by their sequence.
    pub runs: Vec<Stored>,
    /// What they were measured on, by number.
    pub places: BTreeMap<i64, Place>,
    /// Their figures, by run, contest and method.
    pub figures: Vec<Figure>,
}

/// What became of a run that was sent.
#[derive(Debug, PartialEq)]
pub enum Added {
    /// It is stored, with these marks.
    New(String),
    /// It was there already, with these marks and the digest of this secret.
    Known(String, String),
    /// Its machine is banned.
    Banned,
}

/// What happened since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counters {
    /// The sequence of the newest run.
    pub added: i64,
    /// How many were removed.
    pub removed: i64,
}

impl Store {
    /// Opens a database by its URL, makes it if it is a file that does not exist, and brings its tables up to date.
    pub async fn open(url: &str) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let is_sqlite = url.starts_with("sqlite:");
        let made = if is_sqlite && !url.contains('?') {
            format!("{url}?mode=rwc")
        } else {
            url.to_owned()
        };
        let options = AnyPoolOptions::new().max_connections(MOST_CONNECTIONS).after_connect(move |connection, _| {
            Box::pin(async move {
                let set_up = if is_sqlite {
                    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 30000; \
                     PRAGMA cache_size = -4000"
                } else {
                    "DO $$ BEGIN CREATE DOMAIN blob AS bytea; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
                };
                sqlx::raw_sql(set_up).execute(connection).await.map(drop)
            })
        });
        let pool = options.connect(&made).await.map_err(|source| StoreError::Open {
            url: url.to_owned(),
            source,
        })?;
        MIGRATIONS.run(&pool).await?;
        Ok(Self { pool })
    }

    /// Stores a run, if it is new, with the digest of a secret, or an empty text; and marks it if it has samples of another one and
    /// that is asked for.
    pub async fn add(
        &self,
        accepted: &Accepted,
        secret: &str,
        received_unix_seconds: i64,
        marks_copies: bool,
    ) -> Result<Added> {
        let document = compressed(&accepted.document).map_err(sqlx::Error::Io)?;
        let mut transaction = self.pool.begin().await?;
        let sequence = count(&mut transaction, "added").await?;
        let banned = sqlx::query("SELECT machine FROM bans WHERE machine = $1").bind(&accepted.machine);
        if banned.fetch_optional(&mut *transaction).await?.is_some() {
            return Ok(Added::Banned);
        }
        let known = sqlx::query_as("SELECT marks, secret FROM runs WHERE id = $1").bind(&accepted.id);
        if let Some((marks, secret)) = known.fetch_optional(&mut *transaction).await? {
            return Ok(Added::Known(marks, secret));
        }
        let mut marks = accepted.marks.clone();
        if marks_copies && !marks.contains(COPIES) && are_copies(&mut transaction, &accepted.samples).await? {
            marks = with_mark(&marks, COPIES);
        }
        let run = sqlx::query("INSERT INTO runs VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
        let run = run.bind(sequence).bind(&accepted.id).bind(received_unix_seconds);
        let run = run.bind(accepted.run.started.get(..10).unwrap_or_default());
        let run = run.bind(&accepted.machine).bind(&marks).bind(secret).bind(document);
        run.execute(&mut *transaction).await?;
        insert(&mut transaction, sequence, accepted).await?;
        transaction.commit().await?;
        Ok(Added::New(marks))
    }

    /// A run without its document.
    pub async fn run(&self, id: &str) -> Result<Option<Stored>> {
        let query = sqlx::query_as(RUNS_BY_ID).bind(plain(id));
        Ok(query.fetch_optional(&self.pool).await?)
    }

    /// The document of a run.
    pub async fn document(&self, id: &str) -> Result<Option<Vec<u8>>> {
        let query = sqlx::query_scalar("SELECT document FROM runs WHERE id = $1").bind(plain(id));
        let found: Option<Vec<u8>> = query.fetch_optional(&self.pool).await?;
        let text = found.map(|document| decompressed(&document, MAX_BYTES)).transpose();
        text.map_err(|_| StoreError::Damaged(id.to_owned()))
    }

    /// Removes a run; says whether it was there.
    pub async fn remove(&self, id: &str) -> Result<bool> {
        self.remove_where(sqlx::query("DELETE FROM runs WHERE id = $1").bind(plain(id)))
            .await
            .map(|removed| removed > 0)
    }

    /// Removes all runs of a machine, and refuses further ones; says how many there were.
    pub async fn ban(&self, machine: &str) -> Result<u64> {
        let ban = sqlx::query("INSERT INTO bans (machine) VALUES ($1) ON CONFLICT DO NOTHING");
        ban.bind(machine).execute(&self.pool).await?;
        self.remove_where(sqlx::query("DELETE FROM runs WHERE machine = $1").bind(machine))
            .await
    }

    async fn remove_where(&self, delete: sqlx::query::Query<'_, sqlx::Any, sqlx::any::AnyArguments>) -> Result<u64> {
        let mut transaction = self.pool.begin().await?;
        count(&mut transaction, "removed").await?;
        let removed = delete.execute(&mut *transaction).await?.rows_affected();
        transaction.commit().await?;
        Ok(removed)
    }

    /// What happened so far.
    pub async fn counters(&self) -> Result<Counters> {
        let query = sqlx::query_scalar("SELECT value FROM counters ORDER BY name");
        let values: Vec<i64> = query.fetch_all(&self.pool).await?;
        let value = |at: usize| values.get(at).copied().unwrap_or(0);
        Ok(Counters {
            added: value(0),
            removed: value(1),
        })
    }

    /// The sequences of all runs.
    pub async fn sequences(&self) -> Result<HashSet<i64>> {
        let query = sqlx::query_scalar("SELECT sequence FROM runs");
        let sequences: Vec<i64> = query.fetch_all(&self.pool).await?;
        Ok(sequences.into_iter().collect())
    }

    /// The runs after one in the order in which they came, up to another.
    pub async fn runs_between(&self, after: i64, last: i64) -> Result<Vec<Stored>> {
        let query = sqlx::query_as(RUNS_BETWEEN).bind(after).bind(last);
        Ok(query.fetch_all(&self.pool).await?)
    }

    /// The runs after one in the order in which they came, up to another, with all that is searched.
    pub async fn news_between(&self, after: i64, last: i64) -> Result<News> {
        let places =
            sqlx::query("SELECT * FROM places WHERE id IN (SELECT place FROM figures WHERE run > $1 AND run <= $2)");
        let places = places.bind(after).bind(last).fetch_all(&self.pool).await?;
        let place = |row: &AnyRow| {
            let mut place = Place::default();
            for (word, (name, _)) in place.words.iter_mut().zip(WORDS) {
                *word = row.try_get(name)?;
            }
            place.size_bytes = row.try_get("size_bytes")?;
            sqlx::Result::Ok((row.try_get("id")?, place))
        };
        let figures = "SELECT * FROM figures WHERE run > $1 AND run <= $2 ORDER BY run, contest, method";
        Ok(News {
            runs: self.runs_between(after, last).await?,
            places: places.iter().map(place).collect::<sqlx::Result<_>>()?,
            figures: sqlx::query_as(figures)
                .bind(after)
                .bind(last)
                .fetch_all(&self.pool)
                .await?,
        })
    }

    /// The machines whose runs are refused.
    pub async fn bans(&self) -> Result<Vec<String>> {
        let query = sqlx::query_scalar("SELECT machine FROM bans ORDER BY machine");
        Ok(query.fetch_all(&self.pool).await?)
    }
}

const RUNS_BY_ID: &str =
    "SELECT sequence, id, received_unix_seconds, day, machine, marks, secret FROM runs WHERE id = $1";
const RUNS_BETWEEN: &str = "SELECT sequence, id, received_unix_seconds, day, machine, marks, secret FROM runs \
                            WHERE sequence > $1 AND sequence <= $2 ORDER BY sequence";

/// An ID, or nothing that is one: `PostgreSQL` takes no text with a zero byte.
fn plain(id: &str) -> &str {
    if id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        id
    } else {
        ""
    }
}

/// Counts, and so keeps other writers out until the transaction ends.
async fn count(connection: &mut AnyConnection, name: &str) -> Result<i64> {
    let query = sqlx::query_scalar("UPDATE counters SET value = value + 1 WHERE name = $1 RETURNING value");
    Ok(query.bind(name).fetch_one(connection).await?)
}

/// Whether another run has any of these samples.
async fn are_copies(connection: &mut AnyConnection, samples: &[String]) -> Result<bool> {
    for digest in samples {
        let query = sqlx::query("SELECT run FROM samples WHERE digest = $1").bind(digest);
        if query.fetch_optional(&mut *connection).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is searched of a run, and by what its samples are found again.
async fn insert(connection: &mut AnyConnection, run: i64, accepted: &Accepted) -> Result<()> {
    for (number, place) in &accepted.places {
        let query = "INSERT INTO places (id, kind, operation, cache, target, durability, work, model, file_system, kernel, revision, \
                     size_bytes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING";
        let query = place
            .words
            .iter()
            .fold(sqlx::query(query).bind(number), sqlx::query::Query::bind);
        query.bind(place.size_bytes).execute(&mut *connection).await?;
    }
    for figure in &accepted.figures {
        let query = sqlx::query("INSERT INTO figures VALUES ($1, $2, $3, $4, $5, $6, $7)");
        let query = query
            .bind(run)
            .bind(figure.contest)
            .bind(figure.place)
            .bind(&figure.method);
        let query = query.bind(figure.ratio).bind(figure.is_best).bind(figure.seconds);
        query.execute(&mut *connection).await?;
    }
    for digest in &accepted.samples {
        let query = sqlx::query("INSERT INTO samples VALUES ($1, $2) ON CONFLICT DO NOTHING");
        query.bind(digest).bind(run).execute(&mut *connection).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with the first so many migrations.
    async fn older(url: &str, migrations: usize) {
        sqlx::any::install_default_drivers();
        let pool = AnyPool::connect(&format!("{url}?mode=rwc")).await.unwrap();
        let older = sqlx::migrate::Migrator {
            migrations: MIGRATIONS.migrations[..migrations].to_vec().into(),
            ..sqlx::migrate::Migrator::DEFAULT
        };
        older.run(&pool).await.unwrap();
        pool.close().await;
    }

    #[tokio::test]
    async fn a_database_of_each_older_version_is_brought_up_to_date() {
        for migrations in 0..=MIGRATIONS.migrations.len() {
            let place = tempfile::tempdir().unwrap();
            let url = format!("sqlite:{}", place.path().join("hub.db").display());
            older(&url, migrations).await;
            let store = Store::open(&url).await.unwrap();
            assert!(store.ban("machine-1").await.is_ok() && store.bans().await.unwrap() == ["machine-1"]);
            let again = Store::open(&url).await.unwrap();
            assert_eq!(again.bans().await.unwrap(), ["machine-1"]);
        }
    }

    #[tokio::test]
    async fn a_database_of_a_later_version_is_refused_and_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", place.path().join("hub.db").display());
        let store = Store::open(&url).await.unwrap();
        let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                     VALUES (9999, 'later', TRUE, X'00', 0)";
        sqlx::raw_sql(later).execute(&store.pool).await.unwrap();
        let why = Store::open(&url).await.unwrap_err();
        assert!(
            matches!(
                why,
                StoreError::Migrate(sqlx::migrate::MigrateError::VersionMissing(9999))
            ),
            "{why:?}"
        );
    }
}
