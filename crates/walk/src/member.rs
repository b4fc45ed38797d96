//! Files that are not on a disk, but in an archive or in the database of git.

use std::path::Path;

use quarry_source::Language;

use crate::{
    Content, FileFlags, MAX_FILE_BYTES, NEVER_LISTED, SCRIPT_LINE_BYTES, SkipReason, WalkOptions, content,
};

/// The maximum length of such a file, where it would be listed by its path, `/` between its parts; `None` where it would not. Without a known ending it may be a script,
/// whose first line names its language.
pub fn max_bytes_of_member(path: &str, options: &WalkOptions) -> Option<u64> {
    let is_left_out =
        |part: &str| NEVER_LISTED.contains(&part) || !options.hidden && part.starts_with('.') && part != ".";
    if path.split('/').any(is_left_out) {
        return None;
    }
    match quarry_source::language_for(Path::new(path), b"") {
        Some(language) => Some(options.max_file_bytes(language)),
        None => Path::new(path).extension().is_none().then_some(options.max_bytes.min(MAX_FILE_BYTES)),
    }
}

/// The content and the language of such a file.
///
/// # Errors
/// Why it is skipped.
pub fn read_member(
    path: &str,
    bytes: Vec<u8>,
    options: &WalkOptions,
) -> Result<(Language, Content), SkipReason> {
    let by_name = quarry_source::language_for(Path::new(path), b"");
    let start = &bytes[..bytes.len().min(SCRIPT_LINE_BYTES as usize)];
    let language = by_name
        .or_else(|| quarry_source::language_for(Path::new(path), start))
        .ok_or(SkipReason::UnknownLanguage)?;
    if bytes.len() as u64 > options.max_file_bytes(language) {
        return Err(SkipReason::TooLarge);
    }
    Ok((language, content(path, language, FileFlags::empty(), bytes, options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_listed_as_files_are() {
        let options = WalkOptions::default();
        let limit = |path: &str| max_bytes_of_member(path, &options);
        assert_eq!(limit("src/a.py"), Some(1_000_000));
        assert_eq!(limit("a.ipynb"), Some(crate::MAX_NOTEBOOK_BYTES));
        assert_eq!(limit("bin/serve"), Some(1_000_000));
        assert_eq!((limit(".github/a.py"), limit("x/.git/a.py"), limit("a.jpeg")), (None, None, None));
        let language = |path: &str, text: &str| {
            read_member(path, text.as_bytes().to_vec(), &options).map(|(language, _)| language.name())
        };
        assert_eq!(language("bin/serve", "#!/usr/bin/env python3\n"), Ok("python"));
        assert_eq!(language("LICENSE", "Copyright"), Err(SkipReason::UnknownLanguage));
        assert_eq!(language("a.py", "\0"), Err(SkipReason::Binary));
        let long = "x".repeat(1_000_001);
        assert_eq!(language("a.py", &long), Err(SkipReason::TooLarge));
        let (_, found) = read_member("tests/a.py", Vec::new(), &options).unwrap();
        assert!(found.flags.contains(FileFlags::TEST));
    }
}
