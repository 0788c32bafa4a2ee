//! The server: its routes, and what keeps strangers from exhausting it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderName, HeaderValue, Request, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use seekless_results::Known;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{RwLock, Semaphore};
use tokio::time::{sleep, timeout};
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::{KeyExtractor, PeerIpKeyExtractor};
use tower_governor::{GovernorError, GovernorLayer};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;

use crate::app::App;
use crate::cached::{Cache, cached};
use crate::index::Index;
use crate::problem::Problem;
use crate::store::{Store, StoreError};
use crate::{api, dump, pages};

/// How a hub is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen at.
    pub listen: SocketAddr,
    /// The URL of the database.
    pub database: String,
    /// Where others reach it; the address by default.
    pub public_url: Option<String>,
    /// How many requests of one address are answered per second, after a start of twenty times as many; 0: all.
    pub rate: u32,
    /// Whether a proxy stands before it, whose headers tell the addresses.
    pub behind_proxy: bool,
}

/// Why a hub does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It cannot listen.
    #[error("{0}: cannot listen; is another program listening there?")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// Its database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system gives it no threads.
    #[error("cannot start")]
    Start(#[from] std::io::Error),
}

/// So many connections at a time; others wait.
const MOST_CONNECTIONS: usize = 1000;
/// The same of one network, which nobody else is kept out by.
const MOST_OF_NETWORK: usize = 250;
/// How long the headers of a request, a request with its answer, and a connection may take.
const FOR_HEADERS: Duration = Duration::from_secs(10);
const FOR_REQUEST: Duration = Duration::from_secs(30);
const FOR_CONNECTION: Duration = Duration::from_mins(10);
/// How long requests may take after the hub was asked to end.
const FOR_END: Duration = Duration::from_secs(2);
/// How often it looks for what other servers of its database did.
const FOLLOW: Duration = Duration::from_secs(2);
/// What is kept of a request that was not read yet, in bytes.
const UNREAD: usize = 64 << 10;
/// Nothing is loaded but the style, and nothing runs.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

const CROSS_ORIGIN: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Runs a hub until a signal asks it to end; `ready` is told the address.
///
/// # Errors
/// If it cannot start.
pub fn serve(options: &Options, known: Known, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let store = Store::open(&options.database).await?;
            let listener = TcpListener::bind(options.listen).await;
            let listener = listener.map_err(|error| ServeError::Listen(options.listen, error))?;
            let address = listener.local_addr()?;
            let public_url = options
                .public_url
                .clone()
                .unwrap_or_else(|| format!("http://{address}"));
            let mut index = RwLock::default();
            Index::follow(&index, &store).await?;
            let app = Arc::new(App::new(store, std::mem::take(index.get_mut()), known, &public_url));
            let following = app.clone();
            tokio::spawn(async move {
                loop {
                    sleep(FOLLOW).await;
                    if let Err(error) = following.follow().await {
                        tracing::error!("{error}: {:?}", std::error::Error::source(&error));
                    }
                }
            });
            let router = limited_by_address(router(app), options);
            ready(address);
            let free = Arc::new(Semaphore::new(MOST_CONNECTIONS));
            let most = if options.behind_proxy {
                MOST_CONNECTIONS
            } else {
                MOST_OF_NETWORK
            };
            tokio::select! {
                () = accept_all(listener, router, free.clone(), most) => {}
                ended = asked_to_end() => ended?,
            }
            // Requests that have begun are answered.
            let all = timeout(FOR_END, free.acquire_many(MOST_CONNECTIONS as u32)).await;
            drop(all);
            Ok(())
        })
}

/// All routes, without a limit by address.
fn router(app: Arc<App>) -> Router {
    let pages = Router::new()
        .route("/", get(pages::start))
        .route("/kinds/{kind}", get(pages::kind))
        .route("/devices/{model}", get(pages::device))
        .route("/runs", get(pages::runs))
        .route("/runs/{id}", get(pages::run))
        .route("/compare", get(pages::comparison))
        .route("/about", get(pages::about))
        .route("/api", get(pages::api))
        .route("/api/v1/openapi.json", get(pages::openapi))
        .route("/style.css", get(pages::style))
        .route("/icon.svg", get(pages::icon))
        .route("/api/v1/runs", get(api::list_runs))
        .route("/api/v1/runs/{id}", get(api::get_run))
        .route("/api/v1/compare", get(api::get_comparison))
        .route("/api/v1/table", get(api::get_table))
        .route("/api/v1/profiles/{kind}", get(api::get_profile))
        .layer(CompressionLayer::new())
        .layer(from_fn_with_state((app.clone(), Arc::new(Cache::default())), cached));
    let header = |name, value| SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value));
    pages
        .route("/api/v1/runs", post(api::post_run))
        .route("/api/v1/runs/{id}", axum::routing::delete(api::withdraw_run))
        .route("/api/v1/dump.jsonl", get(dump::json_lines))
        .route("/api/v1/dump.parquet", get(dump::parquet))
        .fallback(pages::missing)
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, FOR_REQUEST))
        .layer(CompressionLayer::new())
        .layer(CatchPanicLayer::custom(|_| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the hub failed at this request").into_response()
        }))
        .layer(header(header::CONTENT_SECURITY_POLICY, POLICY))
        .layer(header(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(header(header::REFERRER_POLICY, "no-referrer"))
        .layer(header(CROSS_ORIGIN, "same-origin"))
        .with_state(app)
}

/// Whose request it is.
#[derive(Clone)]
struct Sender {
    behind_proxy: bool,
}

impl KeyExtractor for Sender {
    type Key = IpAddr;

    fn extract<T>(&self, request: &Request<T>) -> Result<IpAddr, GovernorError> {
        // What a proxy appends is the last; what stands before it, the sender may have written.
        let forwarded = request.headers().get_all("x-forwarded-for").iter().next_back();
        let forwarded = forwarded.and_then(|list| list.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
        let address = match forwarded.filter(|_| self.behind_proxy) {
            Some(address) => address,
            None => PeerIpKeyExtractor.extract(request)?,
        };
        Ok(network(address))
    }
}

/// What one sender may have all addresses of.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

fn limited_by_address(router: Router, options: &Options) -> Router {
    let behind_proxy = options.behind_proxy;
    let mut builder = GovernorConfigBuilder::default().key_extractor(Sender { behind_proxy });
    let builder = builder.period(Duration::from_secs(1) / options.rate.max(1));
    let config = builder.burst_size(options.rate.saturating_mul(20)).finish();
    let Some(config) = config else { return router };
    let too_many = |error| match error {
        GovernorError::TooManyRequests { wait_time, .. } => {
            let wait = wait_time.max(1);
            let detail = format!("too many requests from this address; try again in {wait} s");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).into_response()
        }
        _ => Problem::new(StatusCode::BAD_REQUEST, "the address of the request is unknown").into_response(),
    };
    let limiter = config.limiter().clone();
    tokio::spawn(async move {
        loop {
            sleep(FOR_CONNECTION / 10).await;
            limiter.retain_recent();
        }
    });
    router.layer(GovernorLayer::new(config).error_handler(too_many))
}

/// The connections of each network.
type Connections = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// A connection that is counted while it is open.
struct Open(IpAddr, Connections);

impl Open {
    fn of(address: IpAddr, most: usize, connections: &Connections) -> Option<Self> {
        let network = network(address);
        let mut counted = connections.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counted.entry(network).or_default();
        (*count < most).then(|| *count += 1)?;
        Some(Self(network, connections.clone()))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut counted = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counted.get_mut(&self.0) {
            *count -= 1;
        }
        counted.retain(|_, count| *count > 0);
    }
}

/// `most` connections of each network are taken.
async fn accept_all(listener: TcpListener, router: Router, free: Arc<Semaphore>, most: usize) {
    let connections = Connections::default();
    loop {
        let Ok(permit) = free.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, address)) => {
                let Some(open) = Open::of(address.ip(), most, &connections) else {
                    continue;
                };
                let router = router.clone();
                tokio::spawn(async move {
                    let _held = (permit, open);
                    // A client that reads or sends slowly is left.
                    let _ = timeout(FOR_CONNECTION, answer(stream, address, router)).await;
                });
            }
            // Too many files are open, for example.
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, address: SocketAddr, router: Router) {
    let service = tower::service_fn(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        let router = router.clone();
        async move { tower::ServiceExt::oneshot(router, request.map(Body::new)).await }
    });
    let mut builder = http1::Builder::new();
    builder
        .max_buf_size(UNREAD)
        .timer(TokioTimer::new())
        .header_read_timeout(FOR_HEADERS);
    let service = TowerToHyperService::new(service);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Waits for Ctrl-C or SIGTERM.
async fn asked_to_end() -> std::io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = ctrl_c() => interrupted,
        _ = terminated.recv() => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_whom_the_proxy_saw_and_a_network_of_ipv6_is_one() {
        let key = |behind_proxy: bool, forwarded: &[&str]| {
            let mut request = Request::new(());
            request
                .extensions_mut()
                .insert(ConnectInfo(SocketAddr::from(([10, 0, 0, 1], 1))));
            for list in forwarded {
                let list = HeaderValue::from_str(list).unwrap();
                request.headers_mut().append("x-forwarded-for", list);
            }
            Sender { behind_proxy }.extract(&request).unwrap().to_string()
        };
        assert_eq!(key(false, &["1.2.3.4"]), "10.0.0.1");
        assert_eq!(key(true, &[]), "10.0.0.1");
        assert_eq!(key(true, &["1.2.3.4, 5.6.7.8"]), "5.6.7.8");
        assert_eq!(key(true, &["1.2.3.4", "5.6.7.8, 9.9.9.9"]), "9.9.9.9");
        assert_eq!(key(true, &["2001:db8:1:2:3:4:5:6"]), "2001:db8:1:2::");
        assert_eq!(key(true, &["::ffff:5.6.7.8"]), "5.6.7.8");
    }
}
