//! The tokens of a `tokenizer.json`, without a model.

use std::path::{Path, PathBuf};

use tokenizers::Tokenizer;

use super::reader::{FAILS, guarded};
use super::tokenizer::parse_tokenizer;
use quarry_embed::EmbedError;

/// Splits texts into tokens, without truncation, padding or special tokens.
#[derive(Debug)]
pub struct TokenCutter {
    path: PathBuf,
    tokenizer: Tokenizer,
}

impl TokenCutter {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// When the file cannot be read or is not a tokenizer.
    pub fn read(path: &Path) -> Result<Self, EmbedError> {
        let problem =
            "expected the tokenizer.json of a model; check the path, or save the model's tokenizer again";
        let bytes =
            quarry_embed::read_file(path).map_err(|error| EmbedError::model_file(path, problem, error))?;
        let mut tokenizer = parse_tokenizer(path, &bytes)?;
        guarded(path, problem, || tokenizer.with_truncation(None).map(drop))?;
        tokenizer.with_padding(None);
        Ok(Self { path: path.to_owned(), tokenizer })
    }

    /// Passes the tokens of a text to `emit`, in their order.
    ///
    /// # Errors
    /// When the tokenizer fails on the text.
    pub fn cut(&self, text: &str, each: &mut dyn FnMut(&str)) -> Result<(), EmbedError> {
        let encoding = guarded(&self.path, FAILS, || self.tokenizer.encode(text, false))?;
        encoding.get_tokens().iter().for_each(|token| each(token));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn tokens_are_those_of_the_file_and_nothing_is_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokenizer.json");
        let json = r###"{"version":"1.0","truncation":{"direction":"Right","max_length":2,"strategy":"LongestFirst",
            "stride":0},"padding":null,"added_tokens":[],"normalizer":{"type":"Lowercase"},"pre_tokenizer":
            {"type":"Whitespace"},"post_processor":null,"decoder":null,"model":{"type":"WordPiece","unk_token":"[UNK]",
            "continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[UNK]":0,"read":1,"##er":2,"a":3}}}"###;
        fs::write(&path, json).unwrap();
        let mut tokens = Vec::new();
        TokenCutter::read(&path)
            .unwrap()
            .cut("Reader a b", &mut |token| tokens.push(token.to_owned()))
            .unwrap();
        assert_eq!(tokens, ["read", "##er", "a", "[UNK]"]);
        fs::write(&path, "{}").unwrap();
        let error = TokenCutter::read(&path).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json: expected the tokenizer.json of a model"), "{error}");
    }
}
