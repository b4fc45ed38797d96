//! Coding agents: where their settings are, and how Quarry's entry is added and removed.
//!
//! The agents, with the locations of their settings and instructions, are data: `agents.toml`. [`install`] and
//! [`uninstall`] plan the changes ([`Plan`]), which [`Plan::diff`] shows and [`Plan::apply`] makes. What was written is
//! kept as [`Receipts`], so that it is removed exactly: a file that nobody has edited since is restored byte for byte,
//! and from an edited one only Quarry's own part is removed. An entry that somebody else wrote is left alone.
//!
//! Editing is a pure function of texts: `edit` knows the formats, keeps comments, spacing and order, and compares the
//! meaning before and after.

mod agent;
mod edit;
mod error;
mod file;
mod plan;
mod receipt;
mod splice;

pub use agent::{Agent, Environment, Scope, agents, defined};
pub use edit::{Content, Format};
pub use error::{Error, Problem};
pub use plan::{Change, Note, Plan, install, uninstall};
pub use receipt::{Receipt, Receipts};
