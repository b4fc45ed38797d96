//! Writes the tokens of o200k_base for `tokens.rs`, from a crate that reads them at each start and panics on long texts.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "agents")]
    {
        let encoding = tiktoken_rs::o200k_base()?;
        let mut tokens = Vec::new();
        for token in (0..).map_while(|rank| encoding.decode_bytes(&[rank]).ok()) {
            tokens.push(u8::try_from(token.len())?);
            tokens.extend(token);
        }
        std::fs::write(std::path::Path::new(&std::env::var("OUT_DIR")?).join("o200k_base"), tokens)?;
    }
    Ok(())
}
