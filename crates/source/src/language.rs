//! The registry of languages, and how to detect the language of a file.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::{LazyLock, OnceLock};

use tree_sitter_language::LanguageFn;

use crate::allocator;
use crate::flow::FlowRules;
#[cfg(test)]
use crate::pattern::PatternError;
use crate::rules::{
    CheckRules, Content, Embedded, Manifest, NameScope, ReferenceRules, RuleFile, Rules, ShapeRules,
};

/// Reads a language by a grammar that is only built with the feature `more-languages`.
#[cfg(feature = "more-languages")]
macro_rules! more {
    ($grammar:expr) => {
        Reader::Syntax($grammar)
    };
}

#[cfg(not(feature = "more-languages"))]
macro_rules! more {
    ($grammar:expr) => {
        Reader::Lacking
    };
}

/// True if this build has the grammars of the feature `more-languages`.
pub const HAS_MORE_LANGUAGES: bool = cfg!(feature = "more-languages");

/// One line for every language with rules: its name and its reader.
const REGISTRY: &[(&str, Reader)] = &[
    ("asciidoc", Reader::Prose(Prose::AsciiDoc)),
    ("bash", Reader::Syntax(tree_sitter_bash::LANGUAGE)),
    ("c", Reader::Syntax(tree_sitter_c::LANGUAGE)),
    ("clojure", Reader::Syntax(tree_sitter_clojure_orchard::LANGUAGE)),
    ("cpp", Reader::Syntax(tree_sitter_cpp::LANGUAGE)),
    ("csharp", Reader::Syntax(tree_sitter_c_sharp::LANGUAGE)),
    ("dart", more!(tree_sitter_dart_orchard::LANGUAGE)),
    ("ecmascript", Reader::Template),
    ("elixir", Reader::Syntax(tree_sitter_elixir::LANGUAGE)),
    ("erlang", more!(tree_sitter_erlang::LANGUAGE)),
    ("fortran", more!(tree_sitter_fortran::LANGUAGE)),
    ("go", Reader::Syntax(tree_sitter_go::LANGUAGE)),
    ("groovy", more!(tree_sitter_groovy::LANGUAGE)),
    ("haskell", more!(tree_sitter_haskell::LANGUAGE)),
    ("hcl", Reader::Syntax(tree_sitter_hcl::LANGUAGE)),
    ("html", Reader::Markup),
    ("java", Reader::Syntax(tree_sitter_java::LANGUAGE)),
    ("javascript", Reader::Syntax(tree_sitter_javascript::LANGUAGE)),
    ("julia", more!(tree_sitter_julia::LANGUAGE)),
    ("jupyter", Reader::Notebook),
    ("kotlin", Reader::Syntax(tree_sitter_kotlin_ng::LANGUAGE)),
    ("lua", Reader::Syntax(tree_sitter_lua::LANGUAGE)),
    ("markdown", Reader::Prose(Prose::Markdown)),
    ("nix", Reader::Syntax(tree_sitter_nix::LANGUAGE)),
    ("objectivec", more!(tree_sitter_objc::LANGUAGE)),
    ("ocaml", more!(tree_sitter_ocaml::LANGUAGE_OCAML)),
    ("php", Reader::Syntax(tree_sitter_php::LANGUAGE_PHP)),
    ("powershell", more!(tree_sitter_powershell::LANGUAGE)),
    ("protobuf", Reader::Syntax(tree_sitter_proto::LANGUAGE)),
    ("python", Reader::Syntax(tree_sitter_python::LANGUAGE)),
    ("r", Reader::Syntax(tree_sitter_r::LANGUAGE)),
    ("restructuredtext", Reader::Prose(Prose::ReStructuredText)),
    ("ruby", Reader::Syntax(tree_sitter_ruby::LANGUAGE)),
    ("rust", Reader::Syntax(tree_sitter_rust::LANGUAGE)),
    ("scala", Reader::Syntax(tree_sitter_scala::LANGUAGE)),
    ("solidity", more!(tree_sitter_solidity::LANGUAGE)),
    ("svelte", Reader::Markup),
    ("swift", Reader::Syntax(tree_sitter_swift::LANGUAGE)),
    ("tsx", Reader::Syntax(tree_sitter_typescript::LANGUAGE_TSX)),
    ("typescript", Reader::Syntax(tree_sitter_typescript::LANGUAGE_TYPESCRIPT)),
    ("vue", Reader::Markup),
    ("zig", more!(tree_sitter_zig::LANGUAGE)),
];

/// The rule files, as a list in JSON (`build.rs`).
const RULE_FILES: &str = include_str!(concat!(env!("OUT_DIR"), "/rules.json"));

/// The markup of headings and code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prose {
    Markdown,
    ReStructuredText,
    AsciiDoc,
}

/// The way in which files of a language are split into units.
#[derive(Clone, Copy)]
pub(crate) enum Reader {
    /// By a grammar and the rule file's query.
    Syntax(LanguageFn),
    /// At headings, except for the blocks of other languages in it.
    Prose(Prose),
    /// By the languages of its cells.
    Notebook,
    /// At blank lines, except for the blocks of other languages in it.
    Markup,
    /// At blank lines.
    Lines,
    /// At blank lines, because this build lacks the grammar for the rules.
    #[cfg_attr(feature = "more-languages", expect(dead_code, reason = "this build has all grammars"))]
    Lacking,
    /// Not at all: rules for other languages to inherit.
    Template,
}

struct Entry {
    file: RuleFile,
    reader: Reader,
    rules: OnceLock<Rules>,
    references: OnceLock<ReferenceRules>,
    checks: OnceLock<CheckRules>,
    shape: OnceLock<ShapeRules>,
}

/// A supported language: a cheap handle. Languages with equal names are equal.
#[derive(Clone, Copy)]
pub struct Language(&'static Entry);

impl Language {
    /// Lower-case name, such as `python`, `cpp` or `csharp`; the inverse of [`language_named`].
    pub fn name(self) -> &'static str {
        &self.0.file.name
    }

    /// Other lower-case names; [`language_called`] accepts them.
    pub fn aliases(self) -> &'static [String] {
        &self.0.file.aliases
    }

    /// Purpose of the language.
    pub fn content(self) -> Content {
        self.0.file.content
    }

    /// Extensions of its files, without the dot.
    pub fn extensions(self) -> &'static [String] {
        &self.0.file.extensions
    }

    /// Extensions that it shares with another language, such as `h` of C and C++.
    pub fn shared_extensions(self) -> &'static [String] {
        let mut shared = ENTRIES.iter().filter_map(|entry| Some((entry, entry.file.shared.as_ref()?)));
        shared
            .find(|(entry, shared)| entry.file.name == self.name() || shared.language == self.name())
            .map_or(&[], |(_, shared)| &shared.extensions)
    }

    /// Complete file names, such as `Makefile`.
    pub fn file_names(self) -> &'static [String] {
        &self.0.file.file_names
    }

    /// Programs named by the `#!` line of its files, without version.
    pub fn interpreters(self) -> &'static [String] {
        &self.0.file.interpreters
    }

    /// Returns true if its definitions or sections are units; otherwise it is split into line windows.
    pub fn has_rules(self) -> bool {
        !matches!(self.0.reader, Reader::Lacking | Reader::Lines | Reader::Template)
    }

    /// The feature that a build needs for its grammar; `None` if all builds have it.
    pub fn feature(self) -> Option<&'static str> {
        self.0.file.feature.as_deref()
    }

    /// Returns true if it is split into line windows only because this build lacks the [`feature`](Self::feature).
    pub fn lacks_grammar(self) -> bool {
        matches!(self.0.reader, Reader::Lacking)
    }

    /// The tree-sitter grammar that parses it; `None` for prose, markup, notebooks and languages split into
    /// line windows.
    pub fn grammar(self) -> Option<tree_sitter::Language> {
        match self.0.reader {
            Reader::Syntax(grammar) => Some(grammar.into()),
            _ => None,
        }
    }

    pub(crate) fn reader(self) -> Reader {
        self.0.reader
    }

    /// Name shared by languages that call each other's functions.
    pub fn family(self) -> &'static str {
        self.0.file.family.as_deref().unwrap_or(&self.0.file.name)
    }

    /// Extensions of the languages of its family.
    pub fn family_extensions(self) -> impl Iterator<Item = &'static str> {
        let family = languages().filter(move |language| language.family() == self.family());
        family.flat_map(|language| language.extensions()).map(String::as_str)
    }

    /// The scope of a top-level name without an import.
    pub fn name_scope(self) -> NameScope {
        self.0.file.name_scope.unwrap_or_default()
    }

    /// Returns true if a call without a receiver may refer to a method of the enclosing type.
    pub fn calls_own_methods(self) -> bool {
        self.0.file.own_methods
    }

    /// Receivers that refer to a base of the enclosing type, besides `super`.
    pub fn base_names(self) -> &'static [String] {
        &self.0.file.base_names
    }

    /// Returns true if a module or type may be referred to by its qualified name without an import.
    pub fn has_global_modules(self) -> bool {
        self.0.file.global_modules
    }

    /// Files that map the names of its modules to directories.
    pub fn manifests(self) -> &'static [Manifest] {
        &self.0.file.manifests
    }

    /// Names of methods that are called by using the name of their type.
    pub fn constructors(self) -> &'static [String] {
        &self.0.file.constructors
    }

    /// Its tags that contain other languages.
    pub(crate) fn embedded(self) -> &'static [Embedded] {
        &self.0.file.embedded
    }

    /// Its rules, compiled for `grammar` once for all threads.
    pub(crate) fn rules(self, grammar: LanguageFn) -> &'static Rules {
        self.0.rules.get_or_init(|| {
            Rules::compile(&self.0.file, grammar.into()).unwrap_or_else(|error| broken_rules(&error))
        })
    }

    /// Its rules for calls and imports, compiled for `grammar` once for all threads.
    pub(crate) fn reference_rules(self, grammar: LanguageFn) -> &'static ReferenceRules {
        self.0.references.get_or_init(|| {
            ReferenceRules::compile(&self.0.file, &grammar.into())
                .unwrap_or_else(|error| broken_rules(&error))
        })
    }

    /// Its rules for calls and imports, all compiled as one query.
    #[cfg(test)]
    pub(crate) fn reference_query(self, grammar: LanguageFn) -> ReferenceRules {
        let unknown = |_: &str, _: &_, _: &mut _| Err(PatternError::Unknown);
        ReferenceRules::compile_by(unknown, &self.0.file, &grammar.into())
            .unwrap_or_else(|error| broken_rules(&error))
    }

    /// Its rules for checks, compiled for `grammar` once for all threads.
    pub(crate) fn check_rules(self, grammar: LanguageFn) -> &'static CheckRules {
        self.0.checks.get_or_init(|| {
            CheckRules::compile(&self.0.file, &grammar.into()).unwrap_or_else(|error| broken_rules(&error))
        })
    }

    /// Its rules for data flow.
    pub(crate) fn flow_rules(self) -> Option<&'static FlowRules> {
        self.0.file.data_flow.as_ref()
    }

    /// Node kinds of its comments.
    pub(crate) fn comments(self) -> &'static [String] {
        &self.0.file.comments
    }

    /// Returns true if it has rules for the parameters and results of functions.
    pub(crate) fn has_shape_rules(self) -> bool {
        !self.0.file.shape.is_empty()
    }

    /// Its rules for the parameters and results of functions, compiled for `grammar` once for all threads.
    pub(crate) fn shape_rules(self, grammar: LanguageFn) -> &'static ShapeRules {
        self.0.shape.get_or_init(|| {
            ShapeRules::compile(&self.0.file, &grammar.into()).unwrap_or_else(|error| broken_rules(&error))
        })
    }
}

impl fmt::Debug for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_tuple("Language").field(&self.name()).finish()
    }
}

impl PartialEq for Language {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Language {}

impl Hash for Language {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// Detects the language of a file by its name, by its extension (as written, else in lower case), or by its first
/// line if that is a `#!` line. `None` if none of them is known: the file may be anything, including binary data.
///
/// `text` is the file's beginning or all of it; it may be empty. It also decides between languages that share an
/// extension: a C++ header is recognized by syntax that only C++ has, and any header counts as C++ while its text is
/// unknown.
///
/// ```
/// use quarry_source::language_for;
///
/// let name = |path: &str, text: &[u8]| language_for(path.as_ref(), text).map(|language| language.name());
/// assert_eq!(name("src/main.rs", b""), Some("rust"));
/// assert_eq!(name("bin/serve", b"#!/usr/bin/env -S python3.12 -u\n"), Some("python"));
/// assert_eq!(name("cat.jpeg", b"\xff\xd8"), None);
/// ```
pub fn language_for(path: &Path, text: &[u8]) -> Option<Language> {
    let part = |part: Option<&OsStr>| part.and_then(OsStr::to_str).unwrap_or_default().to_owned();
    let extension = part(path.extension());
    let index = &*INDEX;
    let language = index
        .by_file_name
        .get(part(path.file_name()).as_str())
        .or_else(|| index.by_extension.get(extension.as_str()))
        .or_else(|| index.by_extension.get(extension.to_ascii_lowercase().as_str()))
        .or_else(|| index.by_interpreter.get(interpreter(text)?))
        .copied()?;
    match &language.0.file.shared {
        Some(shared) if shared.extensions.contains(&extension) && !text.is_empty() => {
            let has = |marker: &String| memchr::memmem::find(text, marker.as_bytes()).is_some();
            if shared.markers.iter().any(has) { Some(language) } else { language_named(&shared.language) }
        }
        _ => Some(language),
    }
}

/// The language with this [`Language::name`].
pub fn language_named(name: &str) -> Option<Language> {
    languages().find(|language| language.name() == name)
}

/// The language that a person means: by its name or an alias (`golang`), by an extension of its files (`rs`), or by
/// a program that runs them (`node`), in any case.
pub fn language_called(name: &str) -> Option<Language> {
    let name = name.to_lowercase();
    let index = &*INDEX;
    language_named(&name)
        .or_else(|| languages().find(|language| language.aliases().contains(&name)))
        .or_else(|| index.by_extension.get(name.as_str()).copied())
        .or_else(|| index.by_interpreter.get(name.as_str()).copied())
}

/// All languages, in ascending order of their names.
pub fn languages() -> impl Iterator<Item = Language> {
    ENTRIES.iter().filter(|entry| !matches!(entry.reader, Reader::Template)).map(Language)
}

/// The program that a `#!` line names, without directory and version: `python` of `#!/usr/bin/env python3.12 -u`.
fn interpreter(first_line: &[u8]) -> Option<&str> {
    let line = first_line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first_line).strip_prefix(b"#!")?;
    let line = str::from_utf8(line.split(|&byte| byte == b'\n').next()?).ok()?;
    let mut words = line.split_whitespace().filter_map(|word| word.rsplit('/').next());
    let program = match words.next()? {
        // Its options and variable assignments come before the program.
        "env" => words.find(|word| !word.starts_with('-') && !word.contains('='))?,
        program => program,
    };
    Some(program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-'))
}

struct Index {
    by_extension: HashMap<&'static str, Language>,
    by_file_name: HashMap<&'static str, Language>,
    by_interpreter: HashMap<&'static str, Language>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let table = |keys: fn(&RuleFile) -> &[String]| {
        languages()
            .flat_map(|language| keys(&language.0.file).iter().map(move |key| (key.as_str(), language)))
            .collect()
    };
    Index {
        by_extension: table(|file| &file.extensions),
        by_file_name: table(|file| &file.file_names),
        by_interpreter: table(|file| &file.interpreters),
    }
});

/// In ascending order of names.
static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    allocator::install();
    read_entries().unwrap_or_else(|error| broken_rules(&error))
});

/// Rule files are part of the program, so a broken one is a bug that the tests of this module detect, not a state
/// that a caller could handle.
fn broken_rules(error: &dyn std::error::Error) -> ! {
    panic!("broken rule file: {error}: {:?}", error.source())
}

fn read_entries() -> Result<Vec<Entry>, serde_json::Error> {
    let files: Vec<RuleFile> = serde_json::from_str(RULE_FILES)?;
    let readers: HashMap<&str, Reader> = REGISTRY.iter().copied().collect();
    let is_base = |file: &RuleFile| files.iter().any(|other| other.inherits.as_ref() == Some(&file.name));
    let bases: HashMap<String, RuleFile> =
        files.iter().filter(|file| is_base(file)).map(|file| (file.name.clone(), file.clone())).collect();
    let mut entries: Vec<Entry> = files
        .into_iter()
        .map(|mut file| {
            let reader = readers.get(file.name.as_str()).copied().unwrap_or(Reader::Lines);
            let mut next = file.inherits.as_ref();
            while let Some(base) = next.and_then(|name| bases.get(name)) {
                file.add_base(base);
                next = base.inherits.as_ref();
            }
            Entry {
                file,
                reader,
                rules: OnceLock::new(),
                references: OnceLock::new(),
                checks: OnceLock::new(),
                shape: OnceLock::new(),
            }
        })
        .collect();
    entries.sort_by(|a, b| a.file.name.cmp(&b.file.name));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[test]
    fn rule_files_compile() {
        for language in languages() {
            if let Reader::Syntax(grammar) = language.reader()
                && let Err(error) = Rules::compile(&language.0.file, grammar.into())
                    .map(drop)
                    .and(ReferenceRules::compile(&language.0.file, &grammar.into()).map(drop))
                    .and(CheckRules::compile(&language.0.file, &grammar.into()).map(drop))
                    .and(ShapeRules::compile(&language.0.file, &grammar.into()).map(drop))
            {
                panic!("{error}: {:?}", std::error::Error::source(&error));
            }
        }
    }

    #[test]
    fn a_language_names_the_feature_that_its_grammar_needs() {
        for language in languages() {
            assert_eq!(
                language.lacks_grammar(),
                language.feature().is_some() && !HAS_MORE_LANGUAGES,
                "{}",
                language.name()
            );
        }
    }

    #[test]
    fn names_and_keys_are_unique() {
        let all = |keys: fn(&RuleFile) -> Vec<&String>| {
            let mut all: Vec<_> = languages().flat_map(|language| keys(&language.0.file)).collect();
            all.sort();
            all
        };
        for keys in [
            all(|file| iter::once(&file.name).chain(&file.aliases).collect()),
            all(|file| file.extensions.iter().collect()),
            all(|file| file.file_names.iter().collect()),
            all(|file| file.interpreters.iter().collect()),
        ] {
            assert!(!keys.is_empty());
            for pair in keys.windows(2) {
                assert_ne!(pair[0], pair[1]);
            }
        }
    }

    #[test]
    fn grammars_have_rule_files() {
        for (name, _) in REGISTRY {
            assert!(ENTRIES.iter().any(|entry| entry.file.name == *name), "{name}");
        }
    }

    #[test]
    fn bases_exist() {
        for entry in ENTRIES.iter() {
            if let Some(base) = &entry.file.inherits {
                assert!(ENTRIES.iter().any(|entry| &entry.file.name == base), "{base}");
            }
            if let Some(shared) = &entry.file.shared {
                assert!(language_named(&shared.language).is_some(), "{}", shared.language);
                assert!(shared.extensions.iter().all(|extension| entry.file.extensions.contains(extension)));
            }
        }
    }

    #[test]
    fn interpreters() {
        let check = |line: &str, expected| assert_eq!(interpreter(line.as_bytes()), expected, "{line}");
        check("#!/bin/sh", Some("sh"));
        check("#! /usr/bin/python2.7 -u\nimport os", Some("python"));
        check("#!/usr/bin/env -S VAR=1 node --test\r\n", Some("node"));
        check("\u{feff}#!/usr/bin/env bash", Some("bash"));
        check("#!", None);
        check("#!/usr/bin/env", None);
        check("import os", None);
        check("", None);
    }

    #[test]
    fn detection() {
        let check = |path: &str, line: &str, expected| {
            let language = language_for(path.as_ref(), line.as_bytes());
            assert_eq!(language.map(Language::name), expected, "{path}");
        };
        check("a/b.py", "", Some("python"));
        check("A.PY", "", Some("python"));
        check("x.tsx", "", Some("tsx"));
        check("x.d.ts", "", Some("typescript"));
        check("script", "#!/usr/bin/env node", Some("javascript"));
        check("README.md", "", Some("markdown"));
        check("Makefile", "", Some("make"));
        check("a.h", "", Some("cpp"));
        check("a.h", "#pragma once\nnamespace a {}\n", Some("cpp"));
        check("a.h", "std::string f();\n", Some("cpp"));
        check("a.h", "#pragma once\nint f(void); /* for any class of devices */\n", Some("c"));
        check("a.hpp", "int f();\n", Some("cpp"));
        check("ecmascript", "", None);
        check("sums.ipynb", "", Some("jupyter"));
        check("photo.png", "\u{fffd}PNG", None);
        check("", "", None);
    }

    #[test]
    fn headers_are_of_c_and_of_cpp() {
        let shared = |name| language_named(name).unwrap().shared_extensions();
        assert_eq!((shared("c"), shared("cpp")), (&["h".to_owned()][..], &["h".to_owned()][..]));
        assert!(shared("rust").is_empty());
    }

    #[test]
    fn contents() {
        let check = |name, content| assert_eq!(language_named(name).map(Language::content), Some(content));
        check("rust", Content::Code);
        check("haskell", Content::Code);
        check("markdown", Content::Prose);
        check("yaml", Content::Data);
    }

    #[test]
    fn languages_have_common_aliases() {
        let check =
            |name, expected| assert_eq!(language_called(name).map(Language::name), expected, "{name}");
        check("Rust", Some("rust"));
        check("golang", Some("go"));
        check("C++", Some("cpp"));
        check("c#", Some("csharp"));
        check("js", Some("javascript"));
        check("node", Some("javascript"));
        check("shell", Some("bash"));
        check("objective-c", Some("objectivec"));
        check("notebook", Some("jupyter"));
        check("ipynb", Some("jupyter"));
        check("d", Some("d"));
        check("ecmascript", None);
        check("", None);
    }

    #[test]
    fn an_alias_says_more_than_the_other_names() {
        for language in languages() {
            for alias in language.aliases() {
                assert_eq!(*alias, alias.to_lowercase());
                assert_ne!(alias, language.name());
                assert!(
                    !language.extensions().contains(alias) && !language.interpreters().contains(alias),
                    "{alias}"
                );
                assert_eq!(language_called(alias), Some(language), "{alias}");
            }
        }
    }

    #[test]
    fn names_lead_back() {
        for language in languages() {
            assert_eq!(language_named(language.name()), Some(language));
        }
        assert_eq!(language_named("ecmascript"), None);
    }
}
