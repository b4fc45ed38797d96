//! Search for editors: a server of the Language Server Protocol.
//!
//! [`serve`] speaks the protocol on any input and output, and translates: each question is asked of a session with
//! the client's folders (`quarry_session::Session`), which an [`Opener`] makes as the command line asks. What an editor has not
//! saved is ranked as it stands in the editor ([`quarry_index::Index::with_unsaved`]).

mod commands;
mod documents;
mod error;
mod folders;
mod frames;
mod lines;
mod locations;
mod navigation;
mod outbox;
mod progress;
mod related;
mod server;
mod symbols;

pub use error::{OpenError, ServeError};
pub use folders::Opener;
pub use server::{Ending, serve};
