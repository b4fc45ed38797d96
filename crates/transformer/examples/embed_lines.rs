//! Embeds texts, one a line as JSON strings on standard input, and writes their vectors to standard output as
//! little-endian 32-bit floats: `embed_lines MODEL_DIRECTORY [query|document]`.

use std::error::Error;
use std::io::{BufRead, Write};

use quarry_embed::Embedder;
use quarry_transformer::TransformerModel;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = arguments.first().ok_or("expected the path of a model directory")?;
    let model = TransformerModel::load(directory.as_ref())?;
    let lines = std::io::stdin().lock().lines().collect::<Result<Vec<String>, _>>()?;
    let texts = lines.iter().map(|line| serde_json::from_str(line)).collect::<Result<Vec<String>, _>>()?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = match arguments.get(1).map(String::as_str) {
        Some("query") => model.embed_queries(&texts)?,
        None | Some("document") => model.embed_documents(&texts)?,
        Some(other) => return Err(format!("expected query or document, found {other}").into()),
    };
    let bytes: Vec<u8> = vectors.values.iter().flat_map(|value| value.to_le_bytes()).collect();
    std::io::stdout().lock().write_all(&bytes)?;
    Ok(())
}
