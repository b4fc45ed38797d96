//! Filters of units.

use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use quarry_source::{Language, UnitKind, language_called};
use quarry_walk::FileFlags;

use crate::Error;

/// Restricts the results of a search; the default passes everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    languages: Vec<Language>,
    kinds: Vec<UnitKind>,
    globs: Vec<PathGlob>,
    without: FileFlags,
    /// Indices of searched paths; empty for all.
    roots: Vec<usize>,
    /// A directory with a trailing `/`; empty for all.
    directory: String,
    paths: Vec<PathTest>,
    /// In lower case, with `*` and `?`; empty for all.
    names: Vec<String>,
}

/// A test that a path has to pass, in any case of letters.
#[derive(Debug, Clone)]
struct PathTest {
    part: PathPart,
    is_exclusion: bool,
}

#[derive(Debug, Clone)]
enum PathPart {
    /// A part of the path in lower case.
    Within(String),
    /// Its beginning in lower case.
    Start(String),
    Glob(Gitignore),
}

/// A glob that includes files, or with a leading `!` excludes them.
#[derive(Debug, Clone)]
struct PathGlob {
    matcher: Gitignore,
    is_exclusion: bool,
    /// An optional prefix of the path relative to the root.
    prefix: Option<Arc<str>>,
}

impl Filter {
    /// Units of any of `languages` and any of `kinds`, in files that `globs` include; an empty list includes all.
    /// Languages are given by any of their names ([`language_called`]), and include all files whose extension is
    /// shared by several languages, such as C headers, whatever they contain. Cells of a notebook have their own
    /// language, and `jupyter`. Globs are those of gitignore, relative to the root: one that begins with `!`
    /// excludes; if there are others, only files that one of them matches are included. The last glob that matches a
    /// file counts.
    ///
    /// # Errors
    /// When a language is unknown or a glob is malformed.
    pub fn new(languages: &[String], kinds: &[UnitKind], globs: &[String]) -> Result<Self, Error> {
        let languages = languages
            .iter()
            .map(|name| language_called(name).ok_or_else(|| Error::unknown_language(name)))
            .collect::<Result<_, Error>>()?;
        let all = Self { languages, kinds: kinds.to_vec(), ..Self::default() };
        all.with_globs(globs, None)
    }

    /// Appends globs. With a prefix, the path of the root relative to another directory, they are also matched
    /// relative to that directory.
    ///
    /// # Errors
    /// When one is malformed.
    pub fn with_globs(mut self, globs: &[String], prefix: Option<&str>) -> Result<Self, Error> {
        let prefix: Option<Arc<str>> = prefix.filter(|prefix| !prefix.is_empty()).map(Arc::from);
        for glob in globs {
            let malformed = |source| Error::Glob { glob: glob.clone(), source };
            let mut builder = GitignoreBuilder::new("");
            builder.allow_unclosed_class(false);
            builder.add_line(None, glob).map_err(malformed)?;
            let matcher = builder.build().map_err(malformed)?;
            let is_exclusion = matcher.num_whitelists() > 0;
            if !matcher.is_empty() {
                self.globs.push(PathGlob { matcher, is_exclusion, prefix: prefix.clone() });
            }
        }
        Ok(self)
    }

    /// Adds languages ([`new`](Self::new)), kinds, and names of units: of these, one of each sort has to match. A name is
    /// qualified or its last part, in any case of letters, with `*` and `?`.
    ///
    /// # Errors
    /// When a language is unknown.
    pub fn or(mut self, languages: &[String], kinds: &[UnitKind], names: &[String]) -> Result<Self, Error> {
        self.languages.extend(Self::new(languages, kinds, &[])?.languages);
        self.kinds.extend(kinds);
        self.names.extend(names.iter().map(|name| name.to_lowercase()));
        Ok(self)
    }

    /// Adds a test that all paths have to pass, or with `is_exclusion` must not, in any case of letters: a part of the
    /// path, its beginning after a leading `/`, or a glob of gitignore if there is one of `*?[` in it.
    ///
    /// # Errors
    /// When a glob is malformed.
    pub fn and_path(mut self, text: &str, is_exclusion: bool) -> Result<Self, Error> {
        let part = if text.contains(['*', '?', '[']) {
            let malformed = |source| Error::Glob { glob: text.to_owned(), source };
            let mut builder = GitignoreBuilder::new("");
            builder.allow_unclosed_class(false).case_insensitive(true).map_err(malformed)?;
            // A leading `!` would negate it.
            builder
                .add_line(None, &text.replacen('!', "\\!", usize::from(text.starts_with('!'))))
                .map_err(malformed)?;
            PathPart::Glob(builder.build().map_err(malformed)?)
        } else {
            let text = text.strip_prefix("./").unwrap_or(text).to_lowercase();
            match text.strip_prefix('/') {
                Some(start) => PathPart::Start(start.to_owned()),
                None => PathPart::Within(text),
            }
        };
        self.paths.push(PathTest { part, is_exclusion });
        Ok(self)
    }

    /// Excludes files that have any of `flags`.
    #[must_use]
    pub fn without(self, flags: FileFlags) -> Self {
        Self { without: self.without | flags, ..self }
    }

    /// Restricts it to some of the searched paths, by index; an empty list means all.
    #[must_use]
    pub fn in_roots(self, roots: Vec<usize>) -> Self {
        Self { roots, ..self }
    }

    /// Restricts it to files below a directory, whose path is relative to the root; an empty one is the root.
    #[must_use]
    pub fn below(self, directory: &str) -> Self {
        let directory = directory.trim_matches('/');
        let directory = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        Self { directory, ..self }
    }

    /// Returns whether files of a searched path, by index, pass.
    pub fn root(&self, number: usize) -> bool {
        self.roots.is_empty() || self.roots.contains(&number)
    }

    /// The searched paths that it is restricted to, by index; empty for all.
    pub fn roots(&self) -> &[usize] {
        &self.roots
    }

    /// The languages that it is restricted to; empty for all.
    pub fn languages(&self) -> &[Language] {
        &self.languages
    }

    /// The kinds that it is restricted to; empty for all.
    pub fn kinds(&self) -> &[UnitKind] {
        &self.kinds
    }

    /// The directory that it is restricted to, with a trailing `/`; empty for all.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// Returns whether it looks at more than tree, directory, language and kind.
    pub fn has_others(&self) -> bool {
        let by_path = !self.globs.is_empty() || !self.paths.is_empty();
        by_path || !self.without.is_empty() || !self.names.is_empty()
    }

    /// Returns whether everything passes.
    pub fn is_empty(&self) -> bool {
        let is_everywhere = self.roots.is_empty() && self.directory.is_empty() && !self.has_others();
        is_everywhere && self.languages.is_empty() && self.kinds.is_empty()
    }

    /// Returns whether all units of a file pass; `path` is relative to the root, `language` is the name of a language.
    pub fn file(&self, path: &str, language: &str, flags: FileFlags) -> bool {
        let extension = || path.rsplit_once('.').map_or("", |(_, extension)| extension);
        let is_shared =
            |wanted: &Language| wanted.shared_extensions().iter().any(|shared| shared == extension());
        self.path(path, flags) && (self.language(language) || self.languages.iter().any(is_shared))
    }

    /// Returns whether a file passes regardless of its language; the cells of a notebook have languages of their own.
    pub fn path(&self, path: &str, flags: FileFlags) -> bool {
        !self.without.intersects(flags)
            && path.starts_with(&self.directory)
            && self.paths.iter().all(|test| test.part.matches(path) != test.is_exclusion)
            && match self.globs.iter().rev().find(|glob| glob.matches(path)) {
                Some(glob) => !glob.is_exclusion,
                None => self.globs.iter().all(|glob| glob.is_exclusion),
            }
    }

    /// Returns whether units in a language, given by its name, pass.
    pub fn language(&self, name: &str) -> bool {
        self.languages.is_empty() || self.languages.iter().any(|wanted| wanted.name() == name)
    }

    /// Returns whether text that is in no unit passes, which has neither kind nor name.
    pub fn takes_parts(&self) -> bool {
        self.kinds.is_empty() && self.names.is_empty()
    }

    /// Returns whether units of this kind pass.
    pub fn kind(&self, kind: UnitKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// Returns whether units with this qualified name pass.
    pub fn name(&self, name: &str) -> bool {
        if self.names.is_empty() {
            return true;
        }
        let name = name.to_lowercase();
        let own = name.rsplit_once('.').map_or(name.as_str(), |(_, own)| own);
        self.names.iter().any(|pattern| [name.as_str(), own].into_iter().any(|name| wildcard(pattern, name)))
    }
}

impl PathPart {
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Within(part) => path.to_lowercase().contains(part),
            Self::Start(start) => path.to_lowercase().starts_with(start),
            Self::Glob(glob) => glob.matched_path_or_any_parents(path, false).is_ignore(),
        }
    }
}

/// Returns whether a text is what a pattern stands for, in which `*` is any text and `?` any character.
fn wildcard(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut next) = (0, 0);
    // The last `*`, and the text that it does not stand for yet.
    let mut any: Option<(usize, usize)> = None;
    while next < text.len() {
        match (pattern.get(at), any) {
            (Some('*'), _) => {
                any = Some((at, next));
                at += 1;
            }
            (Some(&c), _) if c == '?' || c == text[next] => (at, next) = (at + 1, next + 1),
            (_, Some((star, from))) => {
                any = Some((star, from + 1));
                (at, next) = (star + 1, from + 1);
            }
            _ => return false,
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

impl PathGlob {
    fn matches(&self, path: &str) -> bool {
        let is_match = |path: &str| !self.matcher.matched(path, false).is_none();
        is_match(path) || self.prefix.as_ref().is_some_and(|prefix| is_match(&format!("{prefix}/{path}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(languages: &[&str], globs: &[&str]) -> Result<Filter, Error> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Filter::new(&owned(languages), &[], &owned(globs))
    }

    #[test]
    fn the_default_lets_everything_through() {
        let all = Filter::default();
        assert!(all.is_empty());
        assert!(all.file("a/b.py", "python", FileFlags::all()) && all.kind(UnitKind::Section));
    }

    #[test]
    fn languages_are_selected_by_name() {
        let python = filter(&["Python"], &[]).unwrap();
        assert!(python.file("a.py", "python", FileFlags::empty()));
        assert!(!python.file("a.rs", "rust", FileFlags::empty()));
        assert!(filter(&["RS"], &[]).unwrap().file("a.rs", "rust", FileFlags::empty()));
        let c = filter(&["c"], &[]).unwrap();
        for (path, language, is_in) in [
            ("a.c", "c", true),
            ("a.h", "c", true),
            ("a.h", "cpp", true),
            ("a.hpp", "cpp", false),
            ("h", "cpp", false),
        ] {
            assert_eq!(c.file(path, language, FileFlags::empty()), is_in, "{path} {language}");
        }
    }

    #[test]
    fn unknown_languages_are_answered_with_close_ones() {
        let message = filter(&["pyhton"], &[]).unwrap_err().to_string();
        assert!(message.contains("pyhton") && message.contains("python"), "{message}");
    }

    #[test]
    fn globs_narrow_and_exclude() {
        let of =
            |globs: &[&str], path: &str| filter(&[], globs).unwrap().file(path, "rust", FileFlags::empty());
        assert!(of(&["*.rs"], "a/b/c.rs"));
        assert!(!of(&["*.py"], "a/b/c.rs"));
        assert!(of(&["!tests/**"], "src/c.rs"));
        assert!(!of(&["!tests/**"], "tests/c.rs"));
        assert!(of(&["src/**"], "src/a/c.rs"));
        assert!(!of(&["src/**", "!*.rs"], "src/a/c.rs"));
        assert!(matches!(filter(&[], &["a[b"]), Err(Error::Glob { .. })));
    }

    #[test]
    fn flags_exclude() {
        let own = Filter::default().without(FileFlags::VENDORED | FileFlags::GENERATED);
        assert!(!own.is_empty() && own.file("a.rs", "rust", FileFlags::TEST));
        assert!(!own.file("a.rs", "rust", FileFlags::TEST | FileFlags::VENDORED));
    }

    #[test]
    fn directories_and_searched_paths_narrow() {
        let below = Filter::default().below("/src/net/");
        assert!(!below.is_empty() && below.path("src/net/a.rs", FileFlags::empty()));
        assert!(!below.path("src/network.rs", FileFlags::empty()) && !below.path("a.rs", FileFlags::empty()));
        assert!(Filter::default().below("/").is_empty());
        let second = Filter::default().in_roots(vec![1]);
        assert!(!second.is_empty() && second.root(1) && !second.root(0) && Filter::default().root(7));
    }

    #[test]
    fn parts_of_paths_narrow_and_exclude() {
        let check = |text: &str, is_exclusion, path: &str| {
            let filter = Filter::default().and_path(text, is_exclusion).unwrap();
            assert!(!filter.is_empty() && filter.has_others());
            filter.path(path, FileFlags::empty())
        };
        assert!(check("modules/", false, "a/Modules/b.go") && !check("modules/", false, "modules.go"));
        assert!(check("/modules/", false, "modules/b.go") && !check("/modules/", false, "a/modules/b.go"));
        assert!(!check("test", true, "a/Tests/b.go") && check("test", true, "a/b.go"));
        assert!(check("*.GO", false, "a/b.go") && !check("*.go", true, "a/b.go"));
        assert!(check("mod*s/x", false, "mods/x/y/b.go"));
        let both = Filter::default().and_path("a", false).unwrap().and_path("b", false).unwrap();
        assert!(both.path("a/b", FileFlags::empty()) && !both.path("a/c", FileFlags::empty()));
        assert!(matches!(Filter::default().and_path("a*[b", false), Err(Error::Glob { .. })));
    }

    #[test]
    fn names_narrow() {
        let check = |pattern: &str, name: &str| {
            Filter::default().or(&[], &[], &[pattern.to_owned()]).unwrap().name(name)
        };
        assert!(
            check("parse*", "Parser.parseLine") && check("Parse*", "parser") && check("*.parse", "a.b.parse")
        );
        assert!(!check("parse", "parseLine") && !check("parse*", "reparse") && !check("parse", ""));
        assert!(check("p?r*e*", "parse_tree") && !check("p?r", "paar") && check("a*b*c", "aXbXbc"));
    }

    #[test]
    fn kinds_narrow() {
        let types = Filter::new(&[], &[UnitKind::Type], &[]).unwrap();
        assert!(types.kind(UnitKind::Type) && !types.kind(UnitKind::Method) && !types.is_empty());
    }
}
