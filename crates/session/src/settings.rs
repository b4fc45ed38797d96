//! Settings: the user's file and the tree's file, over the defaults.
//!
//! In ascending order of precedence: the default, `quarry/config.toml` in the user's configuration directory, the
//! nearest `.quarry.toml` from the searched directory up to the root of its repository, the command line. Settings
//! files cannot start programs, or name servers or paths to write to, so that searching in an untrusted tree is safe.
//! The file of a tree is untrusted: it is read only if it is a regular file, and what it names must be in its
//! directory.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::iter;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use quarry_files::{Directory, EntryKind};
use quarry_index::{Error, Filter, NamedRanking, RANKINGS, RankingWeights};
use quarry_source::{Language, UnitKind, language_called, languages};
use quarry_text::{did_you_mean, did_you_mean_or_all, plain_message};
use quarry_walk::{self as walk, FileFlags, WalkOptions};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::de::DeTable;

use crate::byte_size;
use crate::models::Quality;
use crate::{DisplayOptions, Excerpt, UnitsRequest};

/// Name of the settings file in a tree.
const TREE_FILE: &str = ".quarry.toml";

/// Maximum number of results.
const DEFAULT_LIMIT: usize = 10;

/// Units of the largest tree of which a re-ranker's vectors are computed in the background.
const DEFAULT_BACKGROUND_UNITS: usize = 50_000;

/// Lines of a unit that are shown.
const DEFAULT_LINES: usize = 3;

/// Bytes of the largest settings file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Upper bound for `max_bytes` in the settings of a tree, since files are read into memory whole.
const MAX_BYTES_OF_TREE: u64 = 64 << 20;

/// Maximum number of files and directories, and of bytes, of a model that the settings of a tree name.
const MAX_MODEL_ENTRIES: usize = 1000;
const MAX_MODEL_BYTES: u64 = 2 << 30;

/// When to color output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Into pipes and files too.
    Always,
    /// Nowhere.
    Never,
}

/// A settings file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file or its directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// It is malformed.
    #[error("{}:{line}: {problem}", path.display())]
    Mistake {
        /// The file.
        path: PathBuf,
        /// Line of the mistake, 1-based.
        line: usize,
        /// The mistake.
        problem: String,
    },
    /// It sets what the settings of a tree cannot set.
    #[error("{}: {problem}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The setting, and what to do instead.
        problem: String,
    },
}

/// Default parameters of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchDefaults {
    /// Maximum number of results.
    pub limit: usize,
    /// Minimum confidence, if one is set.
    pub threshold: Option<f32>,
    pub ranking: RankingWeights,
    /// Lines of each result; 0 for all.
    pub lines: usize,
    /// Lines before and after those.
    pub context: usize,
}

impl SearchDefaults {
    /// A request for at most `limit` units.
    pub fn request<'a>(&'a self, filter: &'a Filter, limit: usize) -> UnitsRequest<'a> {
        let threshold = self.threshold;
        UnitsRequest { filter: Some(filter), limit, threshold, ..UnitsRequest::new(&self.ranking) }
    }

    /// Lines of units that programs are sent.
    pub fn shown(&self) -> DisplayOptions {
        let excerpt = match self.lines {
            0 => Excerpt::All,
            n => Excerpt::Best(n),
        };
        DisplayOptions { units: true, excerpt, context: (self.context, self.context) }
    }
}

/// Restrictions of a command, beside the settings of each tree.
#[derive(Debug, Clone, Default)]
pub struct Narrowing {
    /// Languages, by name or extension.
    pub languages: Vec<String>,
    pub kinds: Vec<UnitKind>,
    /// Globs, relative to the current directory or to the tree.
    pub globs: Vec<String>,
    /// True to leave out generated code.
    pub no_generated: bool,
    /// True to leave out vendored code.
    pub no_vendored: bool,
}

/// The settings of one source; those that it does not set are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Layer {
    /// Maximum number of results.
    pub limit: Option<usize>,
    /// Minimum confidence, 0 to 1, of a search that found something. The default is 0.26; without vectors, none for texts
    /// of 30 words or more.
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
    /// Trade-off between the speed and the quality of a search.
    pub quality: Option<Quality>,
    /// Units of the largest tree of which `mcp`, `lsp`, `serve` and `index --watch` compute the vectors that the quality `auto`
    /// uses.
    pub background_units: Option<usize>,
    /// Larger files are not indexed.
    #[serde(deserialize_with = "byte_size::deserialize")]
    pub max_bytes: Option<u64>,
    /// Languages of files by their extensions, such as `{ caddyfiletest = "text" }`, before what is known of them; `quarry
    /// languages` lists the names. A file in an unknown language is found exactly and by globs only.
    #[serde(deserialize_with = "languages_named")]
    pub languages: Option<BTreeMap<String, String>>,
    /// Globs of files that may be found; those of the command line come after them.
    pub globs: Option<Vec<String>>,
    /// True if generated code may be found.
    pub generated: Option<bool>,
    /// True if vendored code may be found.
    pub vendored: Option<bool>,
    /// When to color; `"always"` counts in your own settings only.
    #[serde(deserialize_with = "color_named")]
    pub color: Option<Color>,
    /// Tables `[llm.NAME]` with settings of models behind an API, for `--llm NAME`; in your own settings only.
    #[serde(serialize_with = "names")]
    pub llm: Option<BTreeMap<String, toml::Table>>,
}

impl Layer {
    /// The defaults. The model is none: the built-in one; so is the threshold, which depends on the query.
    fn defaults() -> Self {
        Self {
            limit: Some(DEFAULT_LIMIT),
            threshold: None,
            ranking: Some(RANKINGS[0].name.to_owned()),
            lines: Some(DEFAULT_LINES),
            context: Some(0),
            model: None,
            quality: Some(Quality::Auto),
            background_units: Some(DEFAULT_BACKGROUND_UNITS),
            max_bytes: Some(WalkOptions::default().max_bytes),
            languages: Some(BTreeMap::new()),
            globs: Some(Vec::new()),
            generated: Some(true),
            vendored: Some(true),
            color: Some(Color::Auto),
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
    pub fn load(root: &Path) -> Result<Self, SettingsError> {
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

    /// Default parameters of a search.
    pub fn search(&self) -> SearchDefaults {
        SearchDefaults {
            limit: self.get(|layer| layer.limit).unwrap_or(DEFAULT_LIMIT),
            threshold: self.get(|layer| layer.threshold),
            ranking: self.ranking(None),
            lines: self.get(|layer| layer.lines).unwrap_or(DEFAULT_LINES),
            context: self.get(|layer| layer.context).unwrap_or_default(),
        }
    }

    /// The filter of a tree whose paths are relative to `path`, with what a command narrows it to. Globs of the settings
    /// come before the others.
    ///
    /// # Errors
    /// When a language is unknown or a glob is malformed.
    pub fn filter(&self, narrowing: &Narrowing, path: &Path) -> Result<Filter, Error> {
        let Narrowing { languages, kinds, globs, no_generated, no_vendored } = narrowing;
        let of_settings = self.get(|layer| layer.globs.clone()).unwrap_or_default();
        let mut without = FileFlags::empty();
        let is_out = |flag: bool, setting: Option<bool>| flag || setting == Some(false);
        without.set(FileFlags::GENERATED, is_out(*no_generated, self.get(|layer| layer.generated)));
        without.set(FileFlags::VENDORED, is_out(*no_vendored, self.get(|layer| layer.vendored)));
        let filter = Filter::new(languages, kinds, &of_settings)?.without(without);
        filter.with_globs(globs, relative_to_current(path).as_deref())
    }

    /// Units of the largest tree of which a re-ranker's vectors are computed in the background.
    pub fn background_units(&self) -> usize {
        self.get(|layer| layer.background_units).unwrap_or(DEFAULT_BACKGROUND_UNITS)
    }

    /// The settings of the source with the highest precedence.
    pub fn get<T>(&self, setting: impl Fn(&Layer) -> Option<T>) -> Option<T> {
        self.layers.iter().find_map(|(_, layer)| setting(layer))
    }
}

/// Paths at which settings of the tree at `root` may be, by descending precedence.
pub fn files(root: &Path) -> Vec<PathBuf> {
    tree_file(root).into_iter().chain(user_file()).collect()
}

fn tree_file(root: &Path) -> Option<PathBuf> {
    walk::base_directory(root).ok().map(tree_settings_path)
}

/// The file of the user's own settings, which may not exist.
pub fn user_file() -> Option<PathBuf> {
    Some(dirs::config_dir()?.join("quarry").join("config.toml"))
}

/// The nearest one from `base` up to the root of its repository; if there is none, the one that `base` could have.
/// Outside of a repository nothing above `base` is read, since it may belong to somebody else.
fn tree_settings_path(base: &Path) -> PathBuf {
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

/// The layer of the user's settings file; none if there is no file.
///
/// # Errors
/// When it cannot be read, or has an unknown setting.
pub fn read_of_user(file: &Path) -> Result<Option<Layer>, SettingsError> {
    let Some(mut layer) = layer(file, quarry_files::read_regular_text(file, MAX_FILE_BYTES))? else {
        return Ok(None);
    };
    let directory = file.parent().unwrap_or(Path::new(""));
    layer.model = layer.model.map(|model| directory.join(model));
    Ok(Some(layer))
}

/// A settings file that came with a tree; none if there is none.
fn read_of_tree(file: &Path) -> Result<Option<Layer>, SettingsError> {
    let parent = file.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let directory =
        Directory::open(parent).map_err(|source| SettingsError::Read { path: parent.to_owned(), source })?;
    let text = directory.read(Path::new(TREE_FILE), MAX_FILE_BYTES).and_then(quarry_files::text);
    let Some(mut layer) = layer(file, text)? else { return Ok(None) };
    let refused = |problem: String| SettingsError::Refused { path: file.to_owned(), problem };
    if layer.llm.is_some() {
        let problem =
            "[llm] is ignored; the settings of a tree cannot name servers: move it to your own settings";
        return Err(refused(problem.to_owned()));
    }
    if let Some(max_bytes) = layer.max_bytes.filter(|&max_bytes| max_bytes > MAX_BYTES_OF_TREE) {
        return Err(refused(format!(
            "max_bytes is {max_bytes}, but the settings of a tree may allow at most {MAX_BYTES_OF_TREE}; use \
             --max-bytes, or your own settings, for more"
        )));
    }
    // A tree must not force colors into the pipes and files of its users.
    layer.color = layer.color.filter(|color| *color != Color::Always);
    if let Some(model) = &layer.model {
        let below: PathBuf = model.components().filter(|part| *part != Component::CurDir).collect();
        check_model(&directory, &below).map_err(|problem| {
            refused(format!(
                "model = {model:?} is ignored; the settings of a tree can only name a model in the tree, without links: \
                 use --model, or your own settings, for another one: {problem}"
            ))
        })?;
        layer.model = Some(parent.join(model));
    }
    Ok(Some(layer))
}

/// The settings in the text that was read from a file; none if there is no file.
fn layer(file: &Path, text: io::Result<String>) -> Result<Option<Layer>, SettingsError> {
    let path = file.to_owned();
    let text = match text {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SettingsError::Read { path, source }),
    };
    parse(&text).map(Some).map_err(|(line, problem)| SettingsError::Mistake { path, line, problem })
}

/// Checks that a model is a regular file of the directory, or a directory of such files without links.
fn check_model(directory: &Directory, model: &Path) -> Result<(), String> {
    let mut unseen = vec![model.to_owned()];
    let (mut n_seen, mut bytes) = (0, 0_u64);
    while let Some(path) = unseen.pop() {
        let unreadable = |error: io::Error| format!("{}: {error}", path.display());
        let found = directory.entry(&path).map_err(unreadable)?;
        n_seen += 1;
        bytes = bytes.saturating_add(found.bytes);
        if n_seen > MAX_MODEL_ENTRIES || bytes > MAX_MODEL_BYTES {
            return Err(format!(
                "expected at most {MAX_MODEL_ENTRIES} files with {MAX_MODEL_BYTES} bytes in all"
            ));
        }
        match found.kind {
            EntryKind::File => {}
            EntryKind::Directory => {
                let names =
                    directory.directory(&path).and_then(|inside| inside.names()).map_err(unreadable)?;
                unseen.extend(names.into_iter().map(|name| path.join(name)));
            }
            EntryKind::Link => return Err(format!("{} is a symbolic link", path.display())),
            _ => return Err(format!("{} is not a regular file", path.display())),
        }
    }
    Ok(())
}

/// The settings in a text, else the line of a mistake and what is wrong there.
fn parse(text: &str) -> Result<Layer, (usize, String)> {
    let line = |span: Option<Range<usize>>| {
        quarry_files::line_of(text.as_bytes(), span.map_or(0, |span| span.start))
    };
    let failed = |error: &toml::de::Error| (line(error.span()), plain_message(error.message()));
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

/// A setting, for the reference.
#[derive(Debug)]
pub struct Documented {
    pub name: String,
    /// Its default, unless that depends on the build.
    pub default: Option<serde_json::Value>,
    /// Its documentation: the comment above its field.
    pub about: String,
}

/// All settings, for the reference.
pub fn documented() -> Vec<Documented> {
    let defaults = Settings::defaults();
    let mut values: BTreeMap<_, _> =
        defaults.layers.last().into_iter().flat_map(|(_, layer)| values(layer)).collect();
    let documented = |name: String| {
        let default = values.remove(&name).filter(|value| !value.is_null());
        Documented { default, about: comment_above(&name), name }
    };
    keys().into_iter().map(documented).collect()
}

/// The comment above the field of this name.
fn comment_above(name: &str) -> String {
    let (_, layer) = include_str!("settings.rs").split_once("pub struct Layer {").unwrap_or_default();
    let (before, _) = layer.split_once(&format!("pub {name}:")).unwrap_or_default();
    let is_comment = |line: &&str| line.trim_start().starts_with("///");
    let lines: Vec<&str> =
        before.lines().rev().skip(1).skip_while(|line| !is_comment(line)).take_while(is_comment).collect();
    lines.iter().rev().map(|line| line.trim().trim_start_matches("/// ")).collect::<Vec<_>>().join(" ")
}

/// The settings of a layer by name, null if it says nothing.
pub fn values(layer: &Layer) -> Vec<(String, serde_json::Value)> {
    // Goes through text, which keeps the digits that a number was written with.
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

fn color_named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Color>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "auto" => Ok(Some(Color::Auto)),
        "always" => Ok(Some(Color::Always)),
        "never" => Ok(Some(Color::Never)),
        name => {
            Err(serde::de::Error::custom(format!("{name:?} is not a color choice: auto, always or never")))
        }
    }
}

fn languages_named<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    let mut given = BTreeMap::<String, String>::deserialize(deserializer)?;
    for name in given.values_mut() {
        match language_called(name).filter(|language| !language.is_notebook()) {
            Some(language) => language.name().clone_into(name),
            None => {
                let known = languages().filter(|language| !language.is_notebook()).map(Language::name);
                let hint =
                    did_you_mean(name, known).unwrap_or_else(|| "`quarry languages` lists all".to_owned());
                return Err(serde::de::Error::custom(format!("{name:?} is not a language; {hint}")));
            }
        }
    }
    Ok(Some(given))
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

/// The directory that paths of results are relative to, as a path from the current directory with `/` between its
/// parts; none if it is outside of that.
fn relative_to_current(path: &Path) -> Option<String> {
    let base = walk::base_directory(path).ok()?.canonicalize().ok()?;
    let current = env::current_dir().ok()?.canonicalize().ok()?;
    let parts: Option<Vec<&str>> =
        base.strip_prefix(current).ok()?.iter().map(|part| part.to_str()).collect();
    Some(parts?.join("/"))
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
    fn a_file_sets_only_named_options() {
        let layer = parse("limit = 3\ncolor = \"never\"\nglobs = [\"!*.md\"]\n").unwrap();
        assert_eq!((layer.limit, layer.color), (Some(3), Some(Color::Never)));
        assert_eq!(layer.globs, Some(vec!["!*.md".to_owned()]));
        assert_eq!(layer.threshold, None);
        assert_eq!(parse("max_bytes = 2_000").unwrap().max_bytes, Some(2000));
        assert_eq!(parse("max_bytes = \"2M\"").unwrap().max_bytes, Some(2 << 20));
        let languages = parse("languages = { foo = \"c++\" }").unwrap().languages.unwrap();
        assert_eq!(languages["foo"], "cpp");
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
        check_mistake("limit = 3\n[languages]\nfoo = \"pyhton\"\n", 2, "did you mean `python`?");
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
        assert_eq!(tree_settings_path(&at("tree/src")), at("tree/src/.quarry.toml"), "no repository");
        fs::create_dir(at("tree/.git")).unwrap();
        assert_eq!(tree_settings_path(&at("tree/src/net")), at("tree/.quarry.toml"));
        assert_eq!(tree_settings_path(&at("tree")), at("tree/.quarry.toml"));
        fs::write(at("tree/src/.quarry.toml"), "").unwrap();
        assert_eq!(tree_settings_path(&at("tree/src/net")), at("tree/src/.quarry.toml"));
        for file in ["tree/.quarry.toml", "tree/src/.quarry.toml"] {
            fs::remove_file(at(file)).unwrap();
        }
        assert_eq!(
            tree_settings_path(&at("tree/src")),
            at("tree/src/.quarry.toml"),
            "what lies above the repository"
        );
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
