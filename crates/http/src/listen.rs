//! Connections: how many, how slow, and how they end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use quarry_mcp::Workspace;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use crate::access::{Access, AccessError};
use crate::app::App;
use crate::connection::WriteTimeout;
use crate::documents::MakeDocument;
use crate::events::Streams;
use crate::live::MakeTables;
use crate::router::router;
use crate::trees::Trees;
use crate::unsent::Unsent;

/// Connections at a time, slow and idle ones included; what comes beyond is closed.
const MAX_CONNECTIONS: usize = 8192;
/// The longest that a client may take to send the head of a request, or to begin the next one.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The longest that a client may take nothing of an answer.
const WRITE_TIME: Duration = Duration::from_secs(20);
/// The largest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// The longest that requests which were begun are waited for at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// Time after a failure to accept a connection, such as a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {address}; another program may be using it: choose another port with --listen")]
    Bind { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("cannot start the server's threads")]
    Runtime(#[source] io::Error),
}

/// A server that listens, and answers when it is run.
pub struct Server {
    runtime: tokio::runtime::Runtime,
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    stop: StopHandle,
    stopped: watch::Receiver<bool>,
}

#[derive(Clone)]
pub struct StopHandle(Arc<watch::Sender<bool>>);

impl StopHandle {
    /// Ends it when what was begun is answered.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Listens at `address`, whose port may be 0 for any. Agents are served from `workspaces`, one for each tree, if there
    /// are any.
    ///
    /// # Errors
    /// When the address cannot be used, or everybody could read what is served.
    pub fn bind(
        address: SocketAddr,
        trees: Arc<Trees>,
        hosts: Vec<String>,
        token: Option<&str>,
        is_behind_proxy: bool,
        workspaces: Vec<Workspace>,
    ) -> Result<Self, ListenError> {
        let access = Access::new(address, hosts, token, is_behind_proxy)?;
        Self::listen(address, |stopped| router(App::new(trees, access, workspaces, stopped)))
    }

    /// Listens at `address` for the people who fill in a form; requests without a personal link are refused.
    ///
    /// # Errors
    /// When the address cannot be used.
    #[cfg(feature = "labels")]
    pub fn for_labels(
        address: SocketAddr,
        labels: crate::Labels,
        hosts: Vec<String>,
        is_behind_proxy: bool,
    ) -> Result<Self, ListenError> {
        let access = Arc::new(Access::by_links(hosts, is_behind_proxy));
        Self::listen(address, |stopped| {
            let streams = Streams::new(stopped);
            let routes = crate::labels::router(Arc::new(labels), Arc::clone(&access), streams);
            crate::router::guarded(routes, access, Arc::default(), Unsent::default())
        })
    }

    /// Listens at `address` of this machine for people who read pages that `make` makes.
    ///
    /// # Errors
    /// When the address cannot be used, or others can reach it.
    pub fn for_documents(address: SocketAddr, make: Arc<MakeDocument>) -> Result<Self, ListenError> {
        let access = Arc::new(Access::new(address, Vec::new(), None, false)?);
        Self::listen(address, |_| {
            let routes = crate::documents::router(make);
            crate::router::guarded(routes, access, Arc::default(), Unsent::default())
        })
    }

    /// Listens at `address` of this machine for people who look at the state of some work, which the page follows.
    ///
    /// # Errors
    /// When the address cannot be used, or others can reach it.
    pub fn for_status(
        address: SocketAddr,
        title: String,
        make: Box<MakeTables>,
    ) -> Result<Self, ListenError> {
        let access = Arc::new(Access::new(address, Vec::new(), None, false)?);
        Self::listen(address, |stopped| {
            let routes = crate::live::router(title, make, Streams::new(stopped));
            crate::router::guarded(routes, access, Arc::default(), Unsent::default())
        })
    }

    fn listen(
        address: SocketAddr,
        router: impl FnOnce(watch::Receiver<bool>) -> Router,
    ) -> Result<Self, ListenError> {
        raise_file_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(2, usize::from))
            .enable_all()
            .build()
            .map_err(ListenError::Runtime)?;
        let bind = |source| ListenError::Bind { address, source };
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let (stop, stopped) = watch::channel(false);
        let router = router(stopped.clone());
        Ok(Self { runtime, listener, address, router, stop: StopHandle(Arc::new(stop)), stopped })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn stop(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Answers until it is stopped, and then what was begun.
    pub fn run(self) {
        let Self { runtime, listener, router, stopped, .. } = self;
        runtime.block_on(serve(listener, router, stopped));
        // Searches that nobody waits for any longer.
        runtime.shutdown_background();
    }
}

async fn serve(listener: TcpListener, router: Router, mut stopped: watch::Receiver<bool>) {
    let service = router.into_service::<Body>();
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = is_over(&mut stopped) => break,
            // Those that have ended are forgotten.
            Some(_) = connections.join_next() => continue,
        };
        let (stream, _) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&free).try_acquire_owned() else { continue };
        let (service, stopped) = (service.clone(), stopped.clone());
        connections.spawn(async move {
            let service = service.map_request(|request: Request<Incoming>| request.map(Body::new));
            answer(stream, TowerToHyperService::new(service), stopped).await;
            drop(permit);
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    // A client that does not read is not waited for.
    let _ = tokio::time::timeout(LAST_ANSWERS, all).await;
}

/// Raises the limit of open files to the maximum: each connection is one.
fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // If that fails, connections beyond the limit wait.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

async fn is_over(stopped: &mut watch::Receiver<bool>) {
    // Without anybody who could stop it, it runs for ever.
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Answers the requests of a connection, until the client or the server ends it.
async fn answer<S>(stream: TcpStream, service: S, mut stopped: watch::Receiver<bool>)
where
    S: hyper::service::Service<
            Request<Incoming>,
            Response = axum::response::Response,
            Error = Infallible,
            Future: Send,
        > + Send,
{
    // Answers are written whole: waiting to fill a packet would only delay their ends.
    let _ = stream.set_nodelay(true);
    let stream = TokioIo::new(WriteTimeout::new(stream, WRITE_TIME));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = is_over(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended early: {error}");
    }
}
