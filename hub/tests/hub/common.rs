//! Databases and servers for tests.

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use seekless_hub::{Options, serve};
use seekless_record::Run;
use seekless_results::Known;
use tempfile::TempDir;

/// What a run of these tests may say.
pub const KNOWN: Known = Known {
    experiment: |name| matches!(name, "read" | "write").then(Default::default),
    is_kernel: |name| matches!(name, "count" | "none"),
    layout: |_| None,
};

/// The variable that limits the tests to one kind of database: `sqlite`.
const DATABASES: &str = "SEEKLESS_TEST_DATABASES";

/// A database of its own.
pub struct Database {
    pub url: String,
    pub name: &'static str,
    _directory: Option<TempDir>,
}

impl Database {
    pub fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("hub.db").display());
        Self {
            url,
            name: "SQLite",
            _directory: Some(directory),
        }
    }

    /// In a server that the tests start; `None`, with the reason on standard output, where there is none.
    pub fn postgres() -> Option<Self> {
        static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
        let server = SERVER.get_or_init(|| {
            if std::env::var(DATABASES).is_ok_and(|wanted| wanted == "sqlite") {
                println!("skipped: PostgreSQL: {DATABASES}=sqlite");
                return None;
            }
            Postgres::start()
                .map_err(|why| println!("skipped: PostgreSQL: {why}"))
                .ok()
        });
        server.as_ref().map(Postgres::database)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        [Some(Self::sqlite()), Self::postgres()].into_iter().flatten()
    }
}

struct Postgres {
    sockets: PathBuf,
    bin: PathBuf,
}

impl Postgres {
    fn start() -> Result<Self, String> {
        let versions =
            std::fs::read_dir("/usr/lib/postgresql").map_err(|error| format!("/usr/lib/postgresql: {error}"))?;
        let mut found = versions
            .flatten()
            .map(|entry| entry.path().join("bin"))
            .filter(|bin| bin.join("initdb").exists());
        let bin = found.next().ok_or("there is no initdb")?;
        let directory = std::env::temp_dir().join(format!("seekless-hub-postgres-{}", std::process::id()));
        std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            run(Command::new("chown").arg("postgres").arg(&directory))?;
        }
        let data = directory.join("data");
        run(as_postgres(is_root, &bin.join("initdb"))
            .arg("-D")
            .arg(&data)
            .args(["-A", "trust", "-U", "postgres", "-N"]))?;
        let options = format!("-k {} -c listen_addresses=''", directory.display());
        let log = directory.join("log");
        run(as_postgres(is_root, &bin.join("pg_ctl"))
            .arg("-D")
            .arg(&data)
            .args(["-w", "start", "-o", &options, "-l"])
            .arg(log))?;
        // The tests' process ends before it.
        let stop = format!(
            "while test -d /proc/{}; do sleep 0.2; done; {}/pg_ctl -D {} -m immediate stop; rm -rf {}",
            std::process::id(),
            bin.display(),
            data.display(),
            directory.display()
        );
        let mut watch = as_postgres(is_root, "sh".as_ref());
        watch
            .args(["-c", &stop])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null());
        watch
            .stderr(std::process::Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            sockets: directory,
            bin,
        })
    }

    fn database(&self) -> Database {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let name = format!("hub{}", NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let mut create = Command::new(self.bin.join("createdb"));
        run(create.arg("-h").arg(&self.sockets).args(["-U", "postgres", &name])).unwrap();
        let sockets = self.sockets.display().to_string().replace('/', "%2F");
        Database {
            url: format!("postgres://postgres@{sockets}/{name}"),
            name: "PostgreSQL",
            _directory: None,
        }
    }
}

fn as_postgres(is_root: bool, program: &std::path::Path) -> Command {
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(program);
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let text = || {
        format!(
            "{}: {}",
            command.get_program().display(),
            String::from_utf8_lossy(&output.stderr)
        )
    };
    output.status.success().then_some(()).ok_or_else(text)
}

/// A running hub; it runs until the tests end.
pub struct Hub {
    pub url: String,
    pub address: SocketAddr,
    pub database: Option<Database>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub body: Vec<u8>,
}

impl Hub {
    /// One on a database of `SQLite` that goes with it.
    pub fn alone() -> Self {
        Self::alone_with_rate(0)
    }

    pub fn alone_with_rate(rate: u32) -> Self {
        let database = Database::sqlite();
        let mut hub = Self::with_rate(&database, rate);
        hub.database = Some(database);
        hub
    }

    pub fn start(database: &Database) -> Self {
        Self::with_rate(database, 0)
    }

    pub fn with_rate(database: &Database, rate: u32) -> Self {
        let options = Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            database: database.url.clone(),
            public_url: None,
            rate,
            behind_proxy: false,
        };
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            serve(&options, KNOWN, |address| send.send(address).unwrap()).unwrap();
        });
        let address = receive.recv_timeout(Duration::from_mins(1)).unwrap();
        Self {
            url: format!("http://{address}"),
            address,
            database: None,
        }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[])
    }

    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = agent().get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.call())
    }

    /// Sends a run as the client does, with a secret to withdraw it by.
    pub fn share_with(&self, run: &Run, secret: &str) -> Answer {
        let digest = blake3::hash(secret.as_bytes()).to_hex();
        let request = agent().post(format!("{}/api/v1/runs", self.url));
        let request = request.content_type("application/json");
        let request = request.header("Seekless-Withdrawal", digest.as_str());
        Answer::of(request.send(seekless_record::to_json(run).unwrap()))
    }

    pub fn post(&self, body: &[u8]) -> Answer {
        Answer::of(
            agent()
                .post(format!("{}/api/v1/runs", self.url))
                .content_type("application/json")
                .send(body),
        )
    }

    pub fn share(&self, run: &Run) -> Answer {
        self.post(seekless_record::to_json(run).unwrap().as_bytes())
    }

    /// The same; `None` if the server ends meanwhile.
    pub fn try_share(&self, run: &Run) -> Option<Answer> {
        let text = seekless_record::to_json(run).unwrap();
        let result = agent()
            .post(format!("{}/api/v1/runs", self.url))
            .content_type("application/json")
            .send(text);
        let mut response = result.ok()?;
        let body = response.body_mut().read_to_vec().ok()?;
        Some(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body,
        })
    }

    pub fn withdraw(&self, id: &str, secret: &str) -> Answer {
        let request = agent().delete(format!("{}/api/v1/runs/{id}", self.url));
        Answer::of(request.header("Authorization", format!("Bearer {secret}")).call())
    }
}

impl Answer {
    fn of(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Self {
        let mut response = result.unwrap();
        let mut body = Vec::new();
        response.body_mut().as_reader().read_to_end(&mut body).unwrap();
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body,
        }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn field(&self, name: &str) -> String {
        self.json()[name].as_str().unwrap_or_default().to_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_mins(1)));
    config.build().into()
}
