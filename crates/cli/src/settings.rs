//! Settings on the command line: numbers, colors, and tables of models behind an API.

use anyhow::bail;
use clap::ColorChoice;
use quarry_session::settings::Color;
pub use quarry_session::settings::{Settings, documented, files, keys, values};

/// The setting of this user or tree as clap has it.
pub fn color_choice(settings: &Settings) -> ColorChoice {
    match settings.get(|layer| layer.color) {
        None | Some(Color::Auto) => ColorChoice::Auto,
        Some(Color::Always) => ColorChoice::Always,
        Some(Color::Never) => ColorChoice::Never,
    }
}

/// The file of the user's settings, and the table `[llm.NAME]` in it.
#[cfg(feature = "eval")]
pub fn named_llm(name: &str) -> anyhow::Result<(std::path::PathBuf, toml::Table)> {
    use anyhow::Context as _;
    use quarry_session::settings::{read_of_user, user_file};

    let file =
        user_file().context("this user has no configuration directory; set XDG_CONFIG_HOME or HOME")?;
    let tables = read_of_user(&file)?.and_then(|layer| layer.llm).unwrap_or_default();
    match tables.get(name) {
        Some(table) => Ok((file, table.clone())),
        None => bail!(
            "--llm {name}: expected KEY=VALUE, a file whose name ends in .toml, or the NAME of a table [llm.NAME] in {}, \
             which has {:?}",
            file.display(),
            tables.keys().collect::<Vec<_>>()
        ),
    }
}

/// A number on the command line that is not 0.
pub fn at_least_one(text: &str) -> anyhow::Result<usize> {
    match text.parse()? {
        0 => bail!("expected at least 1"),
        number => Ok(number),
    }
}

/// A number on the command line of at most `MAX` that is not 0.
#[cfg(feature = "eval")]
pub fn up_to<const MAX: usize>(text: &str) -> anyhow::Result<usize> {
    match text.parse()? {
        number if (1..=MAX).contains(&number) => Ok(number),
        _ => bail!("expected 1 to {MAX}"),
    }
}

/// A share that the command line names: 0 to 1.
pub fn share(text: &str) -> anyhow::Result<f32> {
    let share: f32 = text.parse()?;
    if !(0.0..=1.0).contains(&share) {
        bail!("expected 0 to 1");
    }
    Ok(share)
}
