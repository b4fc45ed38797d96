//! Replaces `remote` in a build without workers.

use std::sync::Arc;

use quarry_llm::{Attempt, Failure, LlmError, Settings, Transport};

use crate::error::AnnotateError;

/// Uninhabited: there are no workers.
#[derive(Debug)]
pub(crate) enum Remote {}

impl Remote {
    pub(crate) fn questions(self: &Arc<Self>, _: &Settings) -> Result<Self, LlmError> {
        match **self {}
    }

    pub(crate) fn noted(&self, _: &str) {
        match *self {}
    }

    pub(crate) fn withdraw(&self) {
        match *self {}
    }

    pub(crate) fn clear(&self) -> Result<(), AnnotateError> {
        match *self {}
    }
}

impl Transport for Remote {
    fn post(&self, _: &Attempt) -> Result<String, Failure> {
        match *self {}
    }
}
