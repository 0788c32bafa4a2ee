//! The database: `SQLite` by default, or `PostgreSQL`, by the same statements. Whatever is written is written in one transaction with the
//! counter of its kind first, so that writers wait for each other, and nothing is half stored.

use std::collections::HashMap;

use futures_util::TryStreamExt;
use sqlx::any::{AnyPoolOptions, AnyRow};
use sqlx::{AnyConnection, AnyPool, Row};

use crate::accept::{Accepted, Mark, compressed, words};
use crate::figure::{Figure, Place};

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

/// A run as it is stored.
#[derive(Clone, Debug, PartialEq)]
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
    /// Why it does not count.
    pub marks: Vec<Mark>,
    /// The digest of its secret.
    pub secret: String,
}

/// A row of the figures.
#[derive(Clone, Copy, Debug)]
pub struct FigureRow<'a> {
    /// The sequence of its run.
    pub run: i64,
    /// The number of its place.
    pub place: i64,
    /// The method.
    pub method: &'a str,
    /// Its time over that of the best.
    pub ratio: f64,
    /// The time of one file, in seconds.
    pub seconds: f64,
    /// Whether it was the best.
    pub is_best: bool,
}

/// What became of a run that was sent.
#[derive(Debug, PartialEq)]
pub enum Added {
    /// It is stored, with these marks.
    New(Vec<Mark>),
    /// It was there already.
    Known(Vec<Mark>),
    /// Its machine is banned.
    Banned,
}

/// What happened since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// Stores a run, if it is new, and marks it if it has samples of another one and that is asked for.
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
        let known = sqlx::query("SELECT marks FROM runs WHERE id = $1").bind(&accepted.id);
        if let Some(known) = known.fetch_optional(&mut *transaction).await? {
            return Ok(Added::Known(Mark::of(known.try_get(0)?)));
        }
        let mut marks = accepted.marks.clone();
        if marks_copies && !marks.contains(&Mark::Copied) && are_copies(&mut transaction, &accepted.samples).await? {
            marks.push(Mark::Copied);
            marks.sort_unstable();
        }
        let stored = Stored {
            sequence,
            id: accepted.id.clone(),
            received_unix_seconds,
            day: accepted.run.started.get(..10).unwrap_or_default().to_owned(),
            machine: accepted.machine.clone(),
            marks,
            secret: secret.to_owned(),
        };
        insert(
            &mut transaction,
            &stored,
            &document,
            &accepted.figures,
            &accepted.samples,
        )
        .await?;
        transaction.commit().await?;
        Ok(Added::New(stored.marks))
    }

    /// A run and its document, which is compressed.
    pub async fn run(&self, id: &str) -> Result<Option<(Stored, Vec<u8>)>> {
        // PostgreSQL takes no text with a zero byte.
        if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let query = sqlx::query(
            "SELECT sequence, id, received_unix_seconds, day, machine, marks, secret, document FROM runs WHERE id = $1",
        );
        let row = query.bind(id).fetch_optional(&self.pool).await?;
        row.map(|row| Ok((stored(&row)?, row.try_get(7)?))).transpose()
    }

    /// Removes a run; says whether it was there.
    pub async fn remove(&self, id: &str) -> Result<bool> {
        self.remove_where(sqlx::query("DELETE FROM runs WHERE id = $1").bind(id))
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
        let rows = sqlx::query("SELECT value FROM counters ORDER BY name")
            .fetch_all(&self.pool)
            .await?;
        let value = |at: usize| rows.get(at).map_or(Ok(0), |row| row.try_get(0));
        Ok(Counters {
            added: value(0)?,
            removed: value(1)?,
        })
    }

    /// The runs after one in the order in which they came, up to another.
    pub async fn runs_between(&self, after: i64, last: i64) -> Result<Vec<Stored>> {
        let query = sqlx::query(
            "SELECT sequence, id, received_unix_seconds, day, machine, marks, secret FROM runs \
             WHERE sequence > $1 AND sequence <= $2 ORDER BY sequence",
        );
        let rows = query.bind(after).bind(last).fetch_all(&self.pool).await?;
        rows.iter().map(stored).collect()
    }

    /// All places, by their number.
    pub async fn places(&self) -> Result<HashMap<i64, Place>> {
        let mut rows = sqlx::query(
            "SELECT id, kind, model, file_system, kernel, operation, cache, target, durability, work, size_bytes, revision FROM places",
        )
        .fetch(&self.pool);
        let mut places = HashMap::new();
        while let Some(row) = rows.try_next().await? {
            let place = Place {
                kind: row.try_get(1)?,
                model: row.try_get(2)?,
                file_system: row.try_get(3)?,
                kernel: row.try_get(4)?,
                operation: row.try_get(5)?,
                cache: row.try_get(6)?,
                target: row.try_get(7)?,
                durability: row.try_get(8)?,
                work: row.try_get(9)?,
                size_bytes: row.try_get(10)?,
                revision: row.try_get(11)?,
            };
            places.insert(row.try_get(0)?, place);
        }
        Ok(places)
    }

    /// Gives the figures of runs after one in the order in which they came, up to another.
    pub async fn figures_between(&self, after: i64, last: i64, mut each: impl FnMut(FigureRow<'_>)) -> Result<()> {
        let query = sqlx::query(
            "SELECT run, place, method, ratio, seconds, is_best FROM figures WHERE run > $1 AND run <= $2 ORDER BY run, contest, method",
        );
        let mut rows = query.bind(after).bind(last).fetch(&self.pool);
        while let Some(row) = rows.try_next().await? {
            each(FigureRow {
                run: row.try_get(0)?,
                place: row.try_get(1)?,
                method: row.try_get(2)?,
                ratio: row.try_get(3)?,
                seconds: row.try_get(4)?,
                is_best: row.try_get::<i64, _>(5)? > 0,
            });
        }
        Ok(())
    }

    /// The machines whose runs are refused.
    pub async fn bans(&self) -> Result<Vec<String>> {
        let rows = sqlx::query("SELECT machine FROM bans ORDER BY machine")
            .fetch_all(&self.pool)
            .await?;
        Ok(rows
            .iter()
            .map(|row| row.try_get(0))
            .collect::<std::result::Result<_, _>>()?)
    }
}

fn stored(row: &AnyRow) -> Result<Stored> {
    Ok(Stored {
        sequence: row.try_get(0)?,
        id: row.try_get(1)?,
        received_unix_seconds: row.try_get(2)?,
        day: row.try_get(3)?,
        machine: row.try_get(4)?,
        marks: Mark::of(row.try_get(5)?),
        secret: row.try_get(6)?,
    })
}

/// Counts, and so keeps other writers out until the transaction ends.
async fn count(connection: &mut AnyConnection, name: &str) -> Result<i64> {
    let query = sqlx::query("UPDATE counters SET value = value + 1 WHERE name = $1 RETURNING value");
    Ok(query.bind(name).fetch_one(connection).await?.try_get(0)?)
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

async fn insert(
    connection: &mut AnyConnection,
    run: &Stored,
    document: &[u8],
    figures: &[Figure],
    samples: &[String],
) -> Result<()> {
    let query = sqlx::query(
        "INSERT INTO runs (sequence, id, received_unix_seconds, day, machine, marks, secret, document) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    );
    let query = query
        .bind(run.sequence)
        .bind(&run.id)
        .bind(run.received_unix_seconds)
        .bind(&run.day);
    let query = query
        .bind(&run.machine)
        .bind(words(&run.marks))
        .bind(&run.secret)
        .bind(document);
    query.execute(&mut *connection).await?;
    let mut last = None;
    for figure in figures {
        let place = figure.place.number();
        if last != Some(place) {
            insert_place(&mut *connection, place, &figure.place).await?;
            last = Some(place);
        }
        let query = sqlx::query(
            "INSERT INTO figures (run, contest, place, method, ratio, is_best, seconds) VALUES ($1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT DO NOTHING",
        );
        let query = query
            .bind(run.sequence)
            .bind(i64::try_from(figure.contest).unwrap_or(i64::MAX))
            .bind(place)
            .bind(&figure.method);
        let query = query
            .bind(figure.ratio)
            .bind(i64::from(figure.is_best))
            .bind(figure.seconds);
        query.execute(&mut *connection).await?;
    }
    for digest in samples {
        let query = sqlx::query("INSERT INTO samples (digest, run) VALUES ($1, $2) ON CONFLICT DO NOTHING");
        query.bind(digest).bind(run.sequence).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn insert_place(connection: &mut AnyConnection, number: i64, place: &Place) -> Result<()> {
    let query = sqlx::query(
        "INSERT INTO places (id, kind, model, file_system, kernel, operation, cache, target, durability, work, size_bytes, revision) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING",
    );
    let query = query
        .bind(number)
        .bind(&place.kind)
        .bind(&place.model)
        .bind(&place.file_system)
        .bind(&place.kernel);
    let query = query
        .bind(&place.operation)
        .bind(&place.cache)
        .bind(&place.target)
        .bind(&place.durability);
    query
        .bind(&place.work)
        .bind(place.size_bytes)
        .bind(&place.revision)
        .execute(connection)
        .await?;
    Ok(())
}
