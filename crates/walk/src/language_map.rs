//! Languages that settings give to files by their extensions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use quarry_source::{Language, language_named};
use serde::{Deserialize, Deserializer, Serialize};

/// Languages by the extension of a file (in lower case, without the dot), before what is known of its name. Equal maps share
/// their memory, which is never freed: there are as many as settings say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LanguageMap(Option<&'static BTreeMap<String, String>>);

static MAPS: Mutex<Vec<&'static BTreeMap<String, String>>> = Mutex::new(Vec::new());

impl LanguageMap {
    /// Of extensions and names of languages; a name that is none has no effect.
    pub fn new(languages: BTreeMap<String, String>) -> Self {
        if languages.is_empty() {
            return Self(None);
        }
        let lower =
            |(extension, name): (String, String)| (extension.trim_start_matches('.').to_lowercase(), name);
        let languages: BTreeMap<String, String> = languages.into_iter().map(lower).collect();
        let mut maps = MAPS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = maps.iter().find(|known| ***known == languages) {
            return Self(Some(known));
        }
        let kept: &'static BTreeMap<String, String> = Box::leak(Box::new(languages));
        maps.push(kept);
        Self(Some(kept))
    }

    /// Returns whether it gives no file a language.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The language of a file, if it gives one.
    pub fn language_for(&self, path: &Path) -> Option<Language> {
        let extension = path.extension()?.to_str()?.to_lowercase();
        language_named(self.0?.get(&extension)?)
    }
}

impl<'de> Deserialize<'de> for LanguageMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self(None), Self::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_have_languages() {
        let language_map = |pairs: &[(&str, &str)]| {
            LanguageMap::new(pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect())
        };
        let map = language_map(&[(".Foo", "rust"), ("bar", "none")]);
        assert_eq!(map.language_for(Path::new("a/b.FOO")).map(Language::name), Some("rust"));
        assert!(
            map.language_for(Path::new("b.bar")).is_none() && map.language_for(Path::new("foo")).is_none()
        );
        assert!(
            map == language_map(&[("foo", "rust"), ("bar", "none")])
                && !map.is_empty()
                && language_map(&[]).is_empty()
        );
    }
}
