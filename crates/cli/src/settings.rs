//! Settings: what the user's file and the tree's file say, over the defaults.
//!
//! A later one of these counts: the default, `quarry/config.toml` in the user's configuration directory, the nearest
//! `.quarry.toml` from the searched directory up to the root of its repository, the command line. Settings files cannot
//! start programs, or name servers or paths to write to, so that searching in an untrusted tree is safe. That of a
//! tree is read as any file of a stranger's: only if it is a regular file, and what it names is in its directory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::iter;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{ColorChoice, ValueEnum};
use quarry_files::{Directory, EntryKind};
use quarry_index::{NamedRanking, RANKINGS, RankingWeights};
use quarry_text::{did_you_mean_or_all, in_plain_words};
use quarry_walk::{self as walk, WalkOptions};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::de::DeTable;

use crate::byte_size;
use crate::model::Quality;

/// Name of the settings file in a tree.
const TREE_FILE: &str = ".quarry.toml";

/// Lines of a unit that are shown.
const DEFAULT_LINES: usize = 3;

/// Bytes of the largest settings file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The most that the settings of a tree can let a file of it have: all of it is read into memory.
const MAX_BYTES_OF_TREE: u64 = 64 << 20;

/// Files and directories, and bytes, that a model may have that the settings of a tree name.
const MAX_MODEL_ENTRIES: usize = 1000;
const MAX_MODEL_BYTES: u64 = 2 << 30;

/// The settings of one source; those that it does not set are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Layer {
    /// Maximum number of results.
    pub limit: Option<usize>,
    /// Minimum confidence, 0 to 1, of a search that found something. The default is 0.26, and none for texts of 30 words or
    /// more.
    pub threshold: Option<f32>,
    /// The ranking, by its name.
    #[serde(deserialize_with = "ranking_named")]
    pub ranking: Option<String>,
    /// Maximum lines shown of each result; 0 for all.
    pub lines: Option<usize>,
    /// Lines shown above and below those.
    pub context: Option<usize>,
    /// Embedding model; in a file, relative to its directory. The one that `quarry index --model DIR` named comes
    /// first.
    pub model: Option<PathBuf>,
    /// How much time a search may take for better results.
    pub quality: Option<Quality>,
    /// Larger files are not indexed.
    #[serde(deserialize_with = "byte_size::deserialize")]
    pub max_bytes: Option<u64>,
    /// Globs of files that may be found; those of the command line come after them.
    pub globs: Option<Vec<String>>,
    /// Whether generated code may be found.
    pub generated: Option<bool>,
    /// Whether vendored code may be found.
    pub vendored: Option<bool>,
    /// When to color.
    #[serde(serialize_with = "color_name", deserialize_with = "color_named")]
    pub color: Option<ColorChoice>,
    /// Tables `[llm.NAME]` with settings of models behind an API, for `--llm NAME`; in your own settings only.
    #[serde(serialize_with = "names")]
    pub llm: Option<BTreeMap<String, toml::Table>>,
}

impl Layer {
    /// The defaults. The model is none: the built-in one; so is the threshold, which depends on the query.
    fn defaults() -> Self {
        Self {
            limit: Some(10),
            threshold: None,
            ranking: Some(RANKINGS[0].name.to_owned()),
            lines: Some(DEFAULT_LINES),
            context: Some(0),
            model: None,
            quality: Some(Quality::default()),
            max_bytes: Some(WalkOptions::default().max_bytes),
            globs: Some(Vec::new()),
            generated: Some(true),
            vendored: Some(true),
            color: Some(ColorChoice::Auto),
            llm: Some(BTreeMap::new()),
        }
    }
}

/// The settings of a tree.
#[derive(Debug)]
pub struct Settings {
    /// By descending precedence; the defaults, which are in no file, are last.
    pub layers: Vec<(Option<PathBuf>, Layer)>,
}

impl Settings {
    /// The settings of the tree at `root`, which may be a file.
    ///
    /// # Errors
    /// When a settings file cannot be read, or has an unknown setting.
    pub fn load(root: &Path) -> anyhow::Result<Self> {
        let mut layers = Vec::new();
        if let Some(file) = tree_file(root)
            && let Some(layer) = read_of_tree(&file)?
        {
            layers.push((Some(file), layer));
        }
        if let Some(file) = user_file()
            && let Some(layer) = read_of_user(&file)?
        {
            layers.push((Some(file), layer));
        }
        layers.extend(Self::defaults().layers);
        Ok(Self { layers })
    }

    /// The settings common to several trees: those of shared files, and the defaults.
    pub fn shared(all: &[Self]) -> Self {
        let Some((first, others)) = all.split_first() else { return Self::defaults() };
        let canonical = |file: &Option<PathBuf>| file.as_ref().and_then(|file| file.canonicalize().ok());
        let is_shared = |file: &Option<PathBuf>| {
            others
                .iter()
                .all(|other| other.layers.iter().any(|(found, _)| canonical(found) == canonical(file)))
        };
        Self { layers: first.layers.iter().filter(|(file, _)| is_shared(file)).cloned().collect() }
    }

    /// The settings without any file.
    pub fn defaults() -> Self {
        Self { layers: vec![(None, Layer::defaults())] }
    }

    /// The weights of the ranking: the one of this name if one is given.
    pub fn ranking(&self, name: Option<&str>) -> RankingWeights {
        let set = self.get(|layer| layer.ranking.clone());
        let ranking = name.or(set.as_deref()).and_then(NamedRanking::find);
        ranking.map(NamedRanking::weights).unwrap_or_default()
    }

    /// The settings of the source with the highest precedence.
    pub fn get<T>(&self, setting: impl Fn(&Layer) -> Option<T>) -> Option<T> {
        self.layers.iter().find_map(|(_, layer)| setting(layer))
    }
}

/// Where settings of the tree at `root` may be, the strongest first.
pub fn files(root: &Path) -> Vec<PathBuf> {
    tree_file(root).into_iter().chain(user_file()).collect()
}

fn tree_file(root: &Path) -> Option<PathBuf> {
    walk::base_directory(root).ok().map(of_tree)
}

fn user_file() -> Option<PathBuf> {
    Some(dirs::config_dir()?.join("quarry").join("config.toml"))
}

/// The file of the user's settings, and the table `[llm.NAME]` in it.
///
/// # Errors
/// When the table does not exist.
#[cfg(feature = "eval")]
pub fn named_llm(name: &str) -> anyhow::Result<(PathBuf, toml::Table)> {
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

/// The nearest one from `base` up to the root of its repository; if there is none, the one that `base` could have.
/// Outside of a repository nothing above `base` is read, since it may belong to somebody else.
fn of_tree(base: &Path) -> PathBuf {
    let own = base.join(TREE_FILE);
    let Ok(canonical) = base.canonicalize() else { return own };
    let is_there = |file: &Path| fs::symlink_metadata(file).is_ok();
    let Some(root) = canonical.ancestors().find(|directory| is_there(&directory.join(".git"))) else {
        return own;
    };
    let up_to_root = canonical.ancestors().take_while(|directory| directory.starts_with(root));
    let above = up_to_root.skip(1).map(|directory| directory.join(TREE_FILE));
    iter::once(own.clone()).chain(above).find(|file| is_there(file)).unwrap_or(own)
}

/// The user's settings file; none if there is none.
fn read_of_user(file: &Path) -> anyhow::Result<Option<Layer>> {
    let Some(mut layer) = layer(file, quarry_files::read_regular_text(file, MAX_FILE_BYTES))? else {
        return Ok(None);
    };
    let directory = file.parent().unwrap_or(Path::new(""));
    layer.model = layer.model.map(|model| directory.join(model));
    Ok(Some(layer))
}

/// A settings file that came with a tree; none if there is none.
fn read_of_tree(file: &Path) -> anyhow::Result<Option<Layer>> {
    let parent = file.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let directory =
        Directory::open(parent).with_context(|| format!("{}: cannot be read", parent.display()))?;
    let text = directory.read(Path::new(TREE_FILE), MAX_FILE_BYTES).and_then(quarry_files::text);
    let Some(mut layer) = layer(file, text)? else { return Ok(None) };
    if layer.llm.is_some() {
        bail!(
            "{}: [llm] is ignored; the settings of a tree cannot name servers: move it to your own settings",
            file.display()
        );
    }
    if let Some(max_bytes) = layer.max_bytes.filter(|&max_bytes| max_bytes > MAX_BYTES_OF_TREE) {
        bail!(
            "{}: max_bytes is {max_bytes}, but the settings of a tree may allow at most {MAX_BYTES_OF_TREE}; use \
             --max-bytes, or your own settings, for more",
            file.display()
        );
    }
    if let Some(model) = &layer.model {
        let below: PathBuf = model.components().filter(|part| *part != Component::CurDir).collect();
        check_model(&directory, &below).with_context(|| {
            format!(
                "{}: model = {model:?} is ignored; the settings of a tree can only name a model in the tree, without \
                 links: use --model, or your own settings, for another one",
                file.display()
            )
        })?;
        layer.model = Some(parent.join(model));
    }
    Ok(Some(layer))
}

/// The settings in what was read of a file; none if there was none.
fn layer(file: &Path, text: io::Result<String>) -> anyhow::Result<Option<Layer>> {
    let text = match text {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{}: cannot be read", file.display())),
    };
    parse(&text).map(Some).map_err(|(line, problem)| anyhow!("{}:{line}: {problem}", file.display()))
}

/// Looks whether a model is a regular file of the directory, or a directory of such files without links.
fn check_model(directory: &Directory, model: &Path) -> anyhow::Result<()> {
    let mut unseen = vec![model.to_owned()];
    let (mut n_seen, mut bytes) = (0, 0_u64);
    while let Some(path) = unseen.pop() {
        let found = directory.entry(&path).with_context(|| path.display().to_string())?;
        n_seen += 1;
        bytes = bytes.saturating_add(found.bytes);
        if n_seen > MAX_MODEL_ENTRIES || bytes > MAX_MODEL_BYTES {
            bail!("expected at most {MAX_MODEL_ENTRIES} files with {MAX_MODEL_BYTES} bytes in all");
        }
        match found.kind {
            EntryKind::File => {}
            EntryKind::Directory => {
                let names = directory.directory(&path)?.names()?;
                unseen.extend(names.into_iter().map(|name| path.join(name)));
            }
            EntryKind::Link => bail!("{} is a symbolic link", path.display()),
            _ => bail!("{} is not a regular file", path.display()),
        }
    }
    Ok(())
}

/// The settings in a text, else the line of a mistake and what is wrong there.
fn parse(text: &str) -> Result<Layer, (usize, String)> {
    let line = |span: Option<Range<usize>>| {
        quarry_files::line_of(text.as_bytes(), span.map_or(0, |span| span.start))
    };
    let failed = |error: &toml::de::Error| (line(error.span()), in_plain_words(error.message()));
    let table = DeTable::parse(text).map_err(|error| failed(&error))?;
    let known = keys();
    for key in table.get_ref().keys() {
        let name: &str = key.get_ref();
        if !known.iter().any(|known| known == name) {
            return Err((line(Some(key.span())), unknown_key(name, &known)));
        }
    }
    let layer: Layer = toml::from_str(text).map_err(|error| failed(&error))?;
    let line_of = |name: &str| line(table.get_ref().get(name).map(toml::Spanned::span));
    match layer {
        Layer { threshold: Some(threshold), .. } if !(0.0..=1.0).contains(&threshold) => {
            Err((line_of("threshold"), format!("threshold is {threshold}, expected 0 to 1")))
        }
        Layer { limit: Some(0), .. } => Err((line_of("limit"), "limit is 0, expected at least 1".to_owned())),
        _ => Ok(layer),
    }
}

fn unknown_key(name: &str, known: &[String]) -> String {
    format!("unknown setting `{name}`; {}", did_you_mean_or_all(name, known.iter().map(String::as_str)))
}

/// The names of all settings.
pub fn keys() -> Vec<String> {
    values(&Layer::default()).into_iter().map(|(key, _)| key).collect()
}

/// The settings of a layer by name, null if it says nothing.
pub fn values(layer: &Layer) -> Vec<(String, serde_json::Value)> {
    // By way of text, which has as many digits as a number was written with.
    let json = serde_json::to_string(layer).unwrap_or_default();
    serde_json::from_str::<serde_json::Map<_, _>>(&json).unwrap_or_default().into_iter().collect()
}

/// The names of tables alone: an address may hold a password.
#[expect(clippy::ref_option, reason = "serde asks for this form")]
fn names<S: Serializer>(
    tables: &Option<BTreeMap<String, toml::Table>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    tables.as_ref().map(|tables| tables.keys().collect::<Vec<_>>()).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde asks for this form")]
fn color_name<S: Serializer>(color: &Option<ColorChoice>, serializer: S) -> Result<S::Ok, S::Error> {
    color.map(|color| color.to_string()).serialize(serializer)
}

fn color_named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ColorChoice>, D::Error> {
    let name = String::deserialize(deserializer)?;
    ColorChoice::from_str(&name, false).map(Some).map_err(|_| {
        serde::de::Error::custom(format!("{name:?} is not a color choice: auto, always or never"))
    })
}

fn ranking_named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    match NamedRanking::find(&name) {
        Some(_) => Ok(Some(name)),
        None => Err(serde::de::Error::custom(format!(
            "{name:?} is not a ranking: {}",
            RANKINGS.map(|ranking| ranking.name).join(", ")
        ))),
    }
}

/// A number of results that the command line names.
///
/// # Errors
/// When it is not a number, or 0.
pub fn at_least_one(text: &str) -> anyhow::Result<usize> {
    match text.parse()? {
        0 => bail!("expected at least 1"),
        number => Ok(number),
    }
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
        assert_eq!(parse("max_bytes = 2_000").unwrap().max_bytes, Some(2000));
        assert_eq!(parse("max_bytes = \"2M\"").unwrap().max_bytes, Some(2 << 20));
        assert_eq!(parse("").unwrap(), Layer::default());
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        check_mistake("limit = 3\ntreshold = 0.5\n", 2, "did you mean `threshold`");
        check_mistake("\n\nlimit = \"many\"\n", 3, "expected");
        check_mistake("limit = 3\ncolor = \"red\"\n", 2, "auto, always or never");
        check_mistake("limit = 3\nlimit = 4\n", 2, "duplicate");
        check_mistake("lines = 3\nthreshold = 2.0\n", 2, "0 to 1");
        check_mistake("lines = 3\n\nlimit = 0\n", 3, "at least 1");
        check_mistake("max_bytes = \"2X\"\n", 1, "500kB");
        check_mistake("max_bytes = -1\n", 1, "a number of bytes");
        check_mistake("limit 3\n", 1, "");
    }

    #[test]
    fn a_table_of_a_model_shows_its_name_alone() {
        let layer = parse("[llm.work]\nbase_url = \"http://me:secret@host\"\n").unwrap();
        let (_, shown) = values(&layer).into_iter().find(|(key, _)| key == "llm").unwrap();
        assert_eq!(shown, serde_json::json!(["work"]));
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(TREE_FILE), "[llm.work]\n").unwrap();
        let refused = read_of_tree(&directory.path().join(TREE_FILE)).unwrap_err().to_string();
        assert!(refused.contains("cannot name servers"), "{refused}");
    }

    #[test]
    fn the_nearest_file_up_to_the_root_of_the_repository_counts() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().canonicalize().unwrap().join(path);
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
    fn several_trees_share_what_the_same_file_says() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let file = directory.path().join(name);
            fs::write(&file, "").unwrap();
            Some(file)
        };
        let layer = |limit| Layer { limit: Some(limit), ..Layer::default() };
        let user = || (file("user"), layer(5));
        let tree = |name: &str, limit| Settings {
            layers: vec![(file(name), layer(limit)), user(), (None, Layer::defaults())],
        };
        let limit = |all: &[Settings]| Settings::shared(all).get(|layer| layer.limit);
        assert_eq!(limit(&[tree("a", 3)]), Some(3));
        assert_eq!(limit(&[tree("a", 3), tree("a", 3)]), Some(3));
        assert_eq!(limit(&[tree("a", 3), tree("b", 3)]), Some(5));
        assert_eq!(limit(&[tree("a", 3), Settings::defaults()]), Some(10));
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
