//! Search for editors: a server of the Language Server Protocol.
//!
//! [`serve`] speaks the protocol on any input and output, and translates: each answer is made by `quarry_answer` from an
//! index of the client's folders, which an [`Opener`] opens as the command line and settings ask. What an editor has not
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
mod server;
mod symbols;

pub use error::{OpenError, ServeError};
pub use folders::{Opened, Opener};
pub use server::{Ending, serve};
