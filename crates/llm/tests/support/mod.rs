//! A client of the model server for tests, with short waits and a price.

use std::fs;
use std::path::{Path, PathBuf};

use quarry_llm::{ApiKey, ChatRequest, Client, Provider, Settings};
use quarry_test_support::files::paths_below;
use quarry_test_support::model_server::Server;

/// A key with characters that can be escaped in several ways.
pub(crate) const SECRET: &str = "sk-do-not+show/this";

/// Settings with short waits and a price.
pub(crate) fn settings(server: &Server) -> Settings {
    Settings {
        timeout_seconds: 5.0,
        deadline_seconds: 20.0,
        attempts: 3,
        input_price: Some(1.0),
        output_price: Some(10.0),
        ..Settings::new(Provider::OpenaiCompatible, &server.url(), "m")
    }
}

pub(crate) fn client(settings: Settings) -> Client {
    Client::with_key(settings, Some(ApiKey::new("TEST_KEY", SECRET).unwrap())).unwrap()
}

/// The texts of all files in a directory, with their paths.
pub(crate) fn contents(directory: &Path) -> String {
    let text = |path: &PathBuf| format!("{}{}", fs::read_to_string(path).unwrap(), path.display());
    paths_below(directory).iter().map(text).collect()
}

pub(crate) fn question() -> ChatRequest {
    ChatRequest::new("Is it so?", 100)
}
