//! Search in a browser and over HTTP: `quarry serve`.
//!
//! [`Trees`] holds the indexed trees; the process that refreshes an index hands over each new one. [`Server`] answers requests
//! from it: pages for people, which need no script, and the objects of `--json` for programs. It holds no search logic:
//! handlers parse what is asked, have `quarry_session` answer it away from the threads that serve, and render that.
//!
//! Whoever can reach the server may be anybody, and so may the author of a tree: [`Access`] says who is answered,
//! `listen` limits what a connection may cost, `gate` how much is done at once, `unsent` how much waits for clients, and everything that comes from a tree or
//! a request is escaped.

mod access;
mod agents;
mod api;
mod app;
mod connection;
mod documents;
mod events;
mod examples;
mod fitted;
mod gate;
mod highlight;
#[cfg(feature = "labels")]
mod labels;
mod listen;
mod live;
mod metrics;
mod openapi;
mod pages;
mod params;
mod problem;
mod question;
mod related;
mod router;
mod trees;
mod unsent;

pub use access::{Access, AccessError, MIN_TOKEN_BYTES};
pub use documents::{Document, MakeDocument};
#[cfg(feature = "labels")]
pub use labels::{JoinLink, Labels};
pub use listen::{ListenError, Server, StopHandle};
pub use live::MakeTables;
pub use openapi::description;
pub use pages::CodeLink;
pub use trees::{Progress, TreeStatus, Trees};
