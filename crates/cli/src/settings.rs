//! Settings: what the user's file and the tree's file say, over the defaults.
//!
//! A later one of these counts: the default, `quarry/config.toml` in the user's configuration folder, the nearest
//! `.quarry.toml` from the searched folder up to the root of its repository, the command line. Settings files cannot
//! start programs or name places to write to, so that searching in somebody else's tree is safe.

use std::fs;
use std::io;
use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{ColorChoice, ValueEnum};
use quarry_corpus::walk::{self, WalkOptions};
use quarry_text::nearest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::de::DeTable;

/// Name of the settings file in a tree.
const TREE_FILE: &str = ".quarry.toml";

/// Lines of a unit that are shown.
const DEFAULT_LINES: usize = 3;

/// What one place says; a setting that it says nothing about is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Layer {
    /// Greatest number of results.
    pub limit: Option<usize>,
    /// Least confidence, 0 to 1, from which on something was found.
    pub threshold: Option<f32>,
    /// Lines shown of each result; 0 for all.
    pub lines: Option<usize>,
    /// Lines shown above and below those.
    pub context: Option<usize>,
    /// Embedding model; in a file, relative to its folder.
    pub model: Option<PathBuf>,
    /// Greater files are not indexed.
    pub max_bytes: Option<u64>,
    /// Which files may be found; those of the command line come after them.
    pub globs: Option<Vec<String>>,
    /// Whether code that a program wrote may be found.
    pub generated: Option<bool>,
    /// Whether copies of others' code may be found.
    pub vendored: Option<bool>,
    /// When to colour.
    #[serde(serialize_with = "color_name", deserialize_with = "color_named")]
    pub color: Option<ColorChoice>,
}

impl Layer {
    /// What holds where nothing is said. The model is none: the one in the program.
    fn defaults() -> Self {
        Self {
            limit: Some(10),
            threshold: Some(quarry_index::DEFAULT_THRESHOLD),
            lines: Some(DEFAULT_LINES),
            context: Some(0),
            model: None,
            max_bytes: Some(WalkOptions::default().max_bytes),
            globs: Some(Vec::new()),
            generated: Some(true),
            vendored: Some(true),
            color: Some(ColorChoice::Auto),
        }
    }
}

/// The settings of a tree.
#[derive(Debug)]
pub struct Settings {
    /// The strongest first; the defaults, which no file holds, are last.
    pub layers: Vec<(Option<PathBuf>, Layer)>,
}

impl Settings {
    /// Those of the tree at `root`, which may be a file.
    ///
    /// # Errors
    /// When a settings file cannot be read, or says something that is no setting.
    pub fn load(root: &Path) -> anyhow::Result<Self> {
        let mut layers = Vec::new();
        for file in files(root) {
            if let Some(layer) = read(&file)? {
                layers.push((Some(file), layer));
            }
        }
        layers.extend(Self::defaults().layers);
        Ok(Self { layers })
    }

    /// Those that hold where there is no file.
    pub fn defaults() -> Self {
        Self { layers: vec![(None, Layer::defaults())] }
    }

    /// What the strongest place says.
    pub fn get<T>(&self, setting: impl Fn(&Layer) -> Option<T>) -> Option<T> {
        self.layers.iter().find_map(|(_, layer)| setting(layer))
    }
}

/// Where settings of the tree at `root` may be, the strongest first.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let of_tree = walk::base_folder(root).ok().map(of_tree);
    let of_user = dirs::config_dir().map(|folder| folder.join("quarry").join("config.toml"));
    of_tree.into_iter().chain(of_user).collect()
}

/// The nearest one from `base` up to the root of its repository; where there is none, the one that `base` could have.
/// Outside of a repository nothing above `base` is looked at: it may be anybody's.
fn of_tree(base: &Path) -> PathBuf {
    let own = base.join(TREE_FILE);
    let Ok(canonical) = base.canonicalize() else { return own };
    let Some(root) = canonical.ancestors().find(|folder| folder.join(".git").exists()) else { return own };
    let up_to_root = canonical.ancestors().take_while(|folder| folder.starts_with(root));
    let above = up_to_root.skip(1).map(|folder| folder.join(TREE_FILE));
    iter::once(own.clone()).chain(above).find(|file| file.is_file()).unwrap_or(own)
}

/// A settings file; none where there is none.
fn read(file: &Path) -> anyhow::Result<Option<Layer>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let mut layer =
        parse(&text).map_err(|(line, problem)| anyhow!("{}:{line}: {problem}", file.display()))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    layer.model = layer.model.map(|model| folder.join(model));
    Ok(Some(layer))
}

/// The settings in a text, else the line of a mistake and what is wrong there.
fn parse(text: &str) -> Result<Layer, (usize, String)> {
    let line =
        |span: Option<Range<usize>>| text[..span.map_or(0, |span| span.start)].matches('\n').count() + 1;
    let failed = |error: &toml::de::Error| (line(error.span()), error.message().to_owned());
    let table = DeTable::parse(text).map_err(|error| failed(&error))?;
    let known = keys();
    for key in table.get_ref().keys() {
        let name: &str = key.get_ref();
        if !known.iter().any(|known| known == name) {
            return Err((line(Some(key.span())), unknown_key(name, &known)));
        }
    }
    let layer: Layer = toml::from_str(text).map_err(|error| failed(&error))?;
    match layer.threshold {
        Some(threshold) if !(0.0..=1.0).contains(&threshold) => {
            Err((1, format!("threshold is {threshold}, expected 0 to 1")))
        }
        _ => Ok(layer),
    }
}

fn unknown_key(name: &str, known: &[String]) -> String {
    let nearest = nearest(name, known.iter().map(String::as_str), 1).join("");
    format!("there is no setting `{name}`; the nearest is `{nearest}`, all are: {}", known.join(", "))
}

/// The names of all settings.
pub fn keys() -> Vec<String> {
    values(&Layer::default()).into_iter().map(|(key, _)| key).collect()
}

/// The settings of a layer by name, null where it says nothing.
pub fn values(layer: &Layer) -> Vec<(String, serde_json::Value)> {
    // By way of text, which has as many digits as a number was written with.
    let json = serde_json::to_string(layer).unwrap_or_default();
    serde_json::from_str::<serde_json::Map<_, _>>(&json).unwrap_or_default().into_iter().collect()
}

#[expect(clippy::ref_option, reason = "serde asks for this form")]
fn color_name<S: Serializer>(color: &Option<ColorChoice>, serializer: S) -> Result<S::Ok, S::Error> {
    color.map(|color| color.to_string()).serialize(serializer)
}

fn color_named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ColorChoice>, D::Error> {
    let name = String::deserialize(deserializer)?;
    ColorChoice::from_str(&name, false)
        .map(Some)
        .map_err(|_| serde::de::Error::custom(format!("{name:?} is no colour choice: auto, always or never")))
}

/// A share that the command line names: 0 to 1.
///
/// # Errors
/// When it is none.
pub fn share(text: &str) -> anyhow::Result<f32> {
    let share: f32 = text.parse()?;
    if !(0.0..=1.0).contains(&share) {
        bail!("expected 0 to 1");
    }
    Ok(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_mistake(text: &str, line: usize, words: &str) {
        let (found, problem) = parse(text).unwrap_err();
        assert_eq!(found, line, "{problem}");
        assert!(problem.contains(words), "{problem}");
    }

    #[test]
    fn a_file_sets_what_it_names() {
        let layer = parse("limit = 3\ncolor = \"never\"\nglobs = [\"!*.md\"]\n").unwrap();
        assert_eq!((layer.limit, layer.color), (Some(3), Some(ColorChoice::Never)));
        assert_eq!(layer.globs, Some(vec!["!*.md".to_owned()]));
        assert_eq!(layer.threshold, None);
        assert_eq!(parse("").unwrap(), Layer::default());
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        check_mistake("limit = 3\ntreshold = 0.5\n", 2, "the nearest is `threshold`");
        check_mistake("\n\nlimit = \"many\"\n", 3, "expected");
        check_mistake("limit = 3\ncolor = \"red\"\n", 2, "auto, always or never");
        check_mistake("limit = 3\nlimit = 4\n", 2, "duplicate");
        check_mistake("threshold = 2.0\n", 1, "0 to 1");
        check_mistake("limit 3\n", 1, "");
    }

    #[test]
    fn the_nearest_file_up_to_the_root_of_the_repository_counts() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().canonicalize().unwrap().join(path);
        fs::create_dir_all(at("tree/src/net")).unwrap();
        for file in [TREE_FILE, "tree/.quarry.toml"] {
            fs::write(at(file), "limit = 1").unwrap();
        }
        assert_eq!(of_tree(&at("tree/src")), at("tree/src/.quarry.toml"), "no repository");
        fs::create_dir(at("tree/.git")).unwrap();
        assert_eq!(of_tree(&at("tree/src/net")), at("tree/.quarry.toml"));
        assert_eq!(of_tree(&at("tree")), at("tree/.quarry.toml"));
        fs::write(at("tree/src/.quarry.toml"), "").unwrap();
        assert_eq!(of_tree(&at("tree/src/net")), at("tree/src/.quarry.toml"));
        for file in ["tree/.quarry.toml", "tree/src/.quarry.toml"] {
            fs::remove_file(at(file)).unwrap();
        }
        assert_eq!(of_tree(&at("tree/src")), at("tree/src/.quarry.toml"), "what lies above the repository");
    }

    #[test]
    fn the_stronger_layer_counts() {
        let tree = Layer { limit: Some(3), ..Layer::default() };
        let user = Layer { limit: Some(5), lines: Some(7), ..Layer::default() };
        let layers = vec![(None, tree), (None, user), (None, Layer::defaults())];
        let settings = Settings { layers };
        assert_eq!(settings.get(|layer| layer.limit), Some(3));
        assert_eq!(settings.get(|layer| layer.lines), Some(7));
        assert_eq!(settings.get(|layer| layer.context), Some(0));
        assert_eq!(settings.get(|layer| layer.model.clone()), None);
    }
}
