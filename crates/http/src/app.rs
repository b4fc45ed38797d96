//! Shared handler state.

use std::sync::Arc;

use quarry_mcp::Workspace;
use quarry_related::Background;
use tokio::sync::watch;

use crate::access::Access;
use crate::events::Streams;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::trees::{Current, Trees};
use crate::unsent::Unsent;

#[derive(Clone)]
pub(crate) struct App {
    pub trees: Arc<Trees>,
    pub access: Arc<Access>,
    pub gate: Gate,
    pub streams: Streams,
    pub unsent: Unsent,
    pub metrics: Arc<Metrics>,
    pub related: Arc<Background>,
    /// One for each tree, in their order; none where agents are not served.
    pub workspaces: Arc<[Arc<Workspace>]>,
}

impl App {
    /// Answers a question from the index on a thread of its own, within the concurrency limit.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&Current) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.trees.ready()?;
        let trees = Arc::clone(&self.trees);
        self.gate.run(move || trees.ask(question)).await
    }

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
        let related = Arc::new(Background::new(&trees.user()));
        Self {
            trees,
            access,
            gate,
            streams,
            unsent: Unsent::default(),
            metrics: Arc::default(),
            related,
            workspaces,
        }
    }
}
