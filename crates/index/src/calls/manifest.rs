//! Manifests of packages, which map names of modules to directories.

use quarry_source::Manifest;
use serde_json::Value;

/// A prefix of names of modules, with a path that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModulePrefix {
    /// The prefix; modules go on after it with a separator.
    pub name: String,
    /// Parts of the path of its directory or file, from the root of the tree and without an extension.
    pub path: Vec<String>,
    /// The directory of the manifest.
    pub directory: String,
}

/// The prefixes that a manifest in `directory` defines.
pub(super) fn module_prefixes(
    manifest: &Manifest,
    directory: &str,
    file: &str,
    text: &str,
) -> Vec<ModulePrefix> {
    let content = if file.ends_with(".json") { json(text) } else { lines(text) };
    let Some(content) = content else { return Vec::new() };
    let prefix = |name: &str, paths: &[&str]| {
        let path = paths.iter().fold(parts_below("", directory), |base, path| joined(base, path));
        ModulePrefix { name: name.to_owned(), path, directory: directory.to_owned() }
    };
    let names: Vec<&str> = manifest
        .names
        .iter()
        .filter_map(|key| value_at(&content, key)?.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    let mut found: Vec<ModulePrefix> = names.iter().map(|name| prefix(name, &[])).collect();
    let base = manifest.base.as_ref().and_then(|key| value_at(&content, key)?.as_str()).unwrap_or_default();
    for (pattern, value) in
        manifest.paths.iter().filter_map(|key| value_at(&content, key)?.as_object()).flatten()
    {
        let pattern = pattern.split('*').next().unwrap_or_default();
        let own =
            pattern.strip_prefix('.').map(|rest| [names.first().copied().unwrap_or_default(), rest].concat());
        let name = own.as_deref().unwrap_or(pattern);
        if !name.is_empty() {
            let mut paths = Vec::new();
            texts(value, &mut paths);
            found.extend(paths.into_iter().map(|path| prefix(name, &[base, path])));
        }
    }
    found
}

/// Maximum number of paths of a prefix.
const MAX_PATHS: usize = 16;

/// The texts in a value: paths for several conditions.
fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if found.len() < MAX_PATHS => found.push(text),
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(values) => values.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

/// A path below another one, up to a `*`, without the extension of a file.
fn joined(mut base: Vec<String>, path: &str) -> Vec<String> {
    let whole = path.split('*').next().unwrap_or_default();
    let n_before = base.len();
    for part in whole.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => _ = base.pop(),
            part => base.push(part.to_owned()),
        }
    }
    if whole.len() == path.len()
        && base.len() > n_before
        && let Some(last) = base.last_mut()
        && let Some((stem, _)) = last.split_once('.').filter(|(stem, _)| !stem.is_empty())
    {
        *last = stem.to_owned();
    }
    base
}

fn parts_below(base: &str, path: &str) -> Vec<String> {
    [base, path]
        .iter()
        .flat_map(|path| path.split('/'))
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The value at keys joined by dots.
fn value_at<'a>(content: &'a Value, keys: &str) -> Option<&'a Value> {
    keys.split('.').try_fold(content, |value, key| value.get(key))
}

/// JSON with comments and commas before closing brackets.
fn json(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let mut plain = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest.split_once("*/").map_or("", |(_, after)| after);
                continue;
            }
            ']' | '}' => {
                plain.truncate(plain.trim_end().trim_end_matches(',').len());
                1
            }
            c => c.len_utf8(),
        };
        plain.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    serde_json::from_str(&plain).ok()
}

/// Length of the string, with its quotes, that a text begins with.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().enumerate().skip(1).find(|(_, byte)| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Lines such as `key = "value"`, `key: value` and `key value`, below `[section]` lines if there are any.
fn lines(text: &str) -> Option<Value> {
    let mut content = serde_json::Map::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix('[') {
            rest.trim_end().trim_end_matches(']').clone_into(&mut section);
            continue;
        }
        let Some((key, value)) = line.split_once(['=', ':', ' ']).filter(|(key, _)| !key.is_empty()) else {
            continue;
        };
        let value = value.trim_start_matches([' ', '\t', '=', ':']);
        let value = value.split([' ', '\t', '#']).next().unwrap_or_default().trim_matches(['"', '\'']);
        let values = match section.as_str() {
            "" => Some(&mut content),
            section => content
                .entry(section)
                .or_insert_with(|| Value::Object(serde_json::Map::new()))
                .as_object_mut(),
        };
        if let Some(values) = values {
            values.entry(key.trim_end()).or_insert_with(|| value.into());
        }
    }
    Some(content.into())
}

#[cfg(test)]
mod tests {
    use quarry_source::language_named;

    use super::*;

    fn prefixes(language: &str, directory: &str, file: &str, text: &str) -> Vec<String> {
        let manifests = language_named(language).unwrap().manifests();
        let manifest =
            manifests.iter().find(|manifest| manifest.files.iter().any(|name| name == file)).unwrap();
        let found = module_prefixes(manifest, directory, file, text);
        found.iter().map(|prefix| format!("{} {}", prefix.name, prefix.path.join("/"))).collect()
    }

    #[test]
    fn manifests_of_each_form_are_read() {
        let package = r##"{"name": "@shop/cart", "exports": {".": {"import": "./src/index.ts"}, "./price": "./src/price.js"}, "imports": {"#own/*": ["./src/own/*"]}}"##;
        assert_eq!(
            prefixes("typescript", "packages/cart", "package.json", package),
            [
                "@shop/cart packages/cart",
                "@shop/cart packages/cart/src/index",
                "@shop/cart/price packages/cart/src/price",
                "#own/ packages/cart/src/own"
            ]
        );
        let config = "{\n  // aliases\n  \"compilerOptions\": {\"baseUrl\": \"app\", /* \" */ \"paths\": {\"@/*\": [\"./src/*\",], \"cart\": [\"../cart/a\\\"b.ts\"]},},\n}\n";
        assert_eq!(
            prefixes("typescript", "web", "tsconfig.json", config),
            ["@/ web/app/src", "cart web/cart/a\"b"]
        );
        let module = "module example.org/me/shop // the shop\n\ngo 1.22\n";
        assert_eq!(prefixes("go", "", "go.mod", module), ["example.org/me/shop "]);
        let cargo = "[package]\nname = \"shop-cart\" # a cart\nversion = \"1.0\"\n[dependencies]\nname = \"2\"\n[lib]\nname = \"cart\"\n";
        assert_eq!(
            prefixes("rust", "crates/cart", "Cargo.toml", cargo),
            ["shop-cart crates/cart", "cart crates/cart"]
        );
        let composer = r#"{"autoload": {"psr-4": {"Shop\\": ["src/", "lib/"]}}}"#;
        assert_eq!(prefixes("php", "", "composer.json", composer), ["Shop\\ src", "Shop\\ lib"]);
        for broken in ["", "{", "{\"name\": 1", "\"", "[[", "=\n:\n[\n"] {
            assert_eq!(prefixes("typescript", "", "package.json", broken), [""; 0]);
            assert_eq!(prefixes("rust", "", "Cargo.toml", broken), [""; 0]);
        }
    }
}
