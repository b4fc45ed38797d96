//! Selecting the files in an index, and those that a search finds.
//!
//! `quarry index` remembers its options until they are changed; the options of a search apply to that search only. An
//! index contains all files that were requested since `quarry index` last built it, so that two searches for
//! different files do not undo each other's work: each finds its files among the indexed ones.

use quarry_walk::{WalkChoice, WalkOptions};

use crate::OpenOptions;
use crate::storage::index_directory::Manifest;

/// The files of a tree that are indexed and searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSelection {
    /// Files that the index contains.
    pub held: WalkOptions,
    /// Those of these files that a search finds.
    pub found: WalkOptions,
}

impl FileSelection {
    /// The selection for an index with this manifest, if it has one. `is_part`: the index belongs to an enclosing
    /// tree of the given path, and keeps the files that it was built with.
    pub fn new(options: &OpenOptions, manifest: Option<&Manifest>, is_part: bool) -> Self {
        Self::with_known(options, manifest.map(|manifest| (manifest.walk, manifest.remembered)), is_part)
    }

    /// The selection for an index that contains and remembers `known`.
    fn with_known(options: &OpenOptions, known: Option<(WalkOptions, WalkChoice)>, is_part: bool) -> Self {
        let remembered = options.walk.or(known.map(|(_, remembered)| remembered).unwrap_or_default());
        let found = remembered.over(&options.defaults);
        let held = match known {
            Some((held, _)) if is_part => held,
            Some((held, _)) if !options.remember => held.union(&found),
            _ => found,
        };
        Self { held, found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(hidden: Option<bool>, remember: bool) -> OpenOptions {
        let walk = WalkChoice { hidden, ..WalkChoice::default() };
        OpenOptions { walk, remember, ..OpenOptions::default() }
    }

    #[track_caller]
    fn check(options: &OpenOptions, held: Option<bool>, remembered: Option<bool>, expected: (bool, bool)) {
        let held = held.map(|hidden| WalkOptions { hidden, ..WalkOptions::default() });
        let remembered = asked(remembered, true).walk;
        let selection = FileSelection::with_known(options, held.map(|held| (held, remembered)), false);
        assert_eq!((selection.held.hidden, selection.found.hidden), expected);
    }

    #[test]
    fn remembered_settings_hold_until_overridden() {
        let nothing = asked(None, false);
        check(&nothing, None, None, (false, false));
        check(&nothing, Some(true), Some(true), (true, true));
        check(&nothing, Some(true), None, (true, false));
        let no = asked(Some(false), false);
        check(&no, Some(true), Some(true), (true, false));
        let yes = asked(Some(true), false);
        check(&yes, Some(false), None, (true, true));
        check(&yes, None, None, (true, true));
    }

    #[test]
    fn an_explicitly_built_index_holds_the_given_settings_only() {
        check(&asked(None, true), Some(true), None, (false, false));
        check(&asked(None, true), Some(false), Some(true), (true, true));
        check(&asked(Some(false), true), Some(true), Some(true), (false, false));
    }

    #[test]
    fn an_index_around_a_path_is_kept_as_it_is() {
        let held = WalkOptions { max_bytes: 500, ..WalkOptions::default() };
        let selection =
            FileSelection::with_known(&asked(None, false), Some((held, WalkChoice::default())), true);
        assert_eq!(selection, FileSelection { held, found: WalkOptions::default() });
    }
}
