//! What all handlers know.

use std::sync::Arc;

use quarry_server::Workspace;
use tokio::sync::watch;

use crate::access::Access;
use crate::events::Streams;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::trees::Trees;
use crate::unsent::Unsent;

/// What all handlers know.
#[derive(Clone)]
pub(crate) struct App {
    pub trees: Arc<Trees>,
    pub access: Arc<Access>,
    pub gate: Gate,
    pub streams: Streams,
    pub unsent: Unsent,
    pub metrics: Arc<Metrics>,
    /// One for each tree, in their order; none where agents are not served.
    pub workspaces: Arc<[Arc<Workspace>]>,
}

impl App {
    pub(crate) fn new(
        trees: Arc<Trees>,
        access: Access,
        workspaces: Vec<Workspace>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let at_once = std::thread::available_parallelism().map_or(2, usize::from);
        let workspaces = workspaces.into_iter().map(Arc::new).collect();
        let (access, gate) = (Arc::new(access), Gate::new(at_once));
        let streams = Streams::new(stopped);
        Self { trees, access, gate, streams, unsent: Unsent::default(), metrics: Arc::default(), workspaces }
    }
}
