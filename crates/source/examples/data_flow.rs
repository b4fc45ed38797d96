//! Prints the flow of data in a function: `cargo run --release -p quarry-source --example data_flow -- LANGUAGE FILE...`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what it is for")]

use std::process::ExitCode;

use quarry_source::{data_flow, language_called};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(language) = arguments.next().and_then(|name| language_called(&name)) else {
        eprintln!("name a language, and files that hold one function each");
        return ExitCode::from(2);
    };
    for path in arguments {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::from(2);
            }
        };
        let Some(flow) = data_flow(language, &text) else {
            eprintln!("{path}: no rules for data flow in this language");
            return ExitCode::from(2);
        };
        println!("{path}: {} tokens", flow.tokens.len());
        for node in &flow.nodes {
            let named = |token: &usize| format!("{}:{token}", flow.tokens[*token]);
            let sources: Vec<String> = node.sources.iter().map(named).collect();
            println!("{} <- {}", named(&node.token), sources.join(" "));
        }
    }
    ExitCode::SUCCESS
}
