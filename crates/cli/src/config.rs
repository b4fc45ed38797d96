//! `quarry config`: the effective settings, and their sources.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use quarry_index::{Index, OpenOptions, Remembered};
use serde::Serialize;
use serde_json::Value;

use crate::model::ModelChoice;
use crate::output;
use crate::settings::{self, Settings};
use crate::tuned::{self, Tuned};

/// Width of the column of values; longer values push their origin to the right.
const MAX_COLUMN_CHARS: usize = 60;

/// Arguments of `quarry config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Tree whose settings to show
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SettingsView {
    /// By descending precedence.
    files: Vec<FileView>,
    /// The effective settings.
    settings: Vec<SettingView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SettingsFile"))]
struct FileView {
    /// Path of the settings file.
    path: PathBuf,
    /// True if the file exists.
    exists: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SettingView {
    /// Name of the setting.
    name: String,
    /// Null for the built-in model.
    value: Value,
    /// The file that sets it, the record of what was tuned, or the directory of the index that remembers it; null for a
    /// default.
    from: Option<PathBuf>,
}

pub fn run(args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.path)?;
    let remembered = Index::remembered(&args.path, &OpenOptions::default())?;
    let files = settings::files(&args.path);
    let untuned = ModelChoice::untuned(&args.path, &OpenOptions::default(), &settings)?.name();
    let tuned = Tuned::nearest(&args.path)
        .filter(|tuned| untuned.as_ref().is_ok_and(|name| *name == tuned.in_place_of));
    let answer = SettingsView {
        files: files.into_iter().map(|path| FileView { exists: path.is_file(), path }).collect(),
        settings: settings::keys()
            .into_iter()
            .map(|name| match &tuned {
                Some(tuned) if name == "model" => {
                    let record = tuned.record();
                    SettingView { name, value: serde_json::json!(tuned.path()), from: record }
                }
                _ => view(&settings, remembered.as_ref(), name),
            })
            .collect(),
    };
    if args.json {
        output::print_json(&answer)?;
    } else {
        output::print(&text(&answer))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn view(settings: &Settings, remembered: Option<&Remembered>, name: String) -> SettingView {
    let of_index = remembered.and_then(|remembered| {
        let value = match name.as_str() {
            "model" => remembered.model.clone().map(Value::from),
            "max_bytes" => remembered.walk.max_bytes.map(Value::from),
            _ => None,
        };
        Some((value?, remembered.index.clone()))
    });
    if let Some((value, index)) = of_index {
        return SettingView { name, value, from: Some(index) };
    }
    let said = settings.layers.iter().find_map(|(file, layer)| {
        let value = settings::values(layer).into_iter().find(|(key, _)| *key == name)?.1;
        (!value.is_null()).then(|| (value, file.clone()))
    });
    let (value, from) = said.unwrap_or((Value::Null, None));
    SettingView { name, value, from }
}

fn text(answer: &SettingsView) -> String {
    let origin = |from: &Option<PathBuf>| match from {
        Some(index) if index.is_dir() => format!("quarry index, in {}", index.display()),
        Some(record) if record.ends_with(tuned::RECORD) => format!("quarry tune, in {}", record.display()),
        Some(file) => file.display().to_string(),
        None => "default".to_owned(),
    };
    let value =
        |value: &Value| if value.is_null() { "the built-in one".to_owned() } else { value.to_string() };
    let rows: Vec<(&str, String, String)> = answer
        .settings
        .iter()
        .map(|setting| (setting.name.as_str(), value(&setting.value), origin(&setting.from)))
        .collect();
    let width = rows.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or_default();
    let width = width.min(MAX_COLUMN_CHARS);
    let name_width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (name, value, origin) in rows {
        let _ = writeln!(text, "{name:<name_width$} {value:<width$}  {origin}");
    }
    text.push_str("\nSettings files, highest precedence first:\n");
    for file in &answer.files {
        let _ = writeln!(text, "  {}{}", show(&file.path), if file.exists { "" } else { " (missing)" });
    }
    text
}

fn show(path: &Path) -> String {
    path.display().to_string()
}
