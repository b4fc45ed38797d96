//! Links from code to elsewhere.

use super::layout::path_text;

/// A link from code to elsewhere: to an editor, or the page of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLink {
    pub(super) name: String,
    template: String,
}

impl CodeLink {
    /// Parts of a template that stand for something.
    const PARTS: [&str; 4] = ["{path}", "{line}", "{root}", "{tree}"];

    /// `NAME=ADDRESS`, where the address holds `{path}`, and may hold `{line}`, `{root}` and `{tree}`.
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected NAME=ADDRESS with {path} in it, and with a scheme that opens a page or an editor, such as \
             'editor=vscode://file{root}/{path}:{line}'"
                .to_owned()
        };
        let (name, template) = text.split_once('=').ok_or_else(expected)?;
        let scheme = template.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let runs = ["javascript", "data", "vbscript"].iter().any(|bad| scheme.eq_ignore_ascii_case(bad));
        if name.is_empty() || !is_scheme || runs || !template.contains(Self::PARTS[0]) {
            return Err(expected());
        }
        Ok(Self { name: name.to_owned(), template: template.to_owned() })
    }

    pub(super) fn address(&self, tree: &str, root: &str, path: &str, line: u32) -> String {
        let line = line.to_string();
        let values = [path_text(path), line, path_text(root), path_text(tree)];
        // One pass, so that a path which looks like a part is not taken for one.
        let mut address = String::new();
        let mut rest = self.template.as_str();
        while let Some(at) = rest.find('{') {
            address.push_str(&rest[..at]);
            rest = &rest[at..];
            match Self::PARTS.iter().zip(&values).find(|(part, _)| rest.starts_with(**part)) {
                Some((part, value)) => {
                    address.push_str(value);
                    rest = &rest[part.len()..];
                }
                None => {
                    address.push('{');
                    rest = &rest[1..];
                }
            }
        }
        address + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_a_line() {
        let link = CodeLink::parse("forge=https://forge.example/r/{tree}/{path}#L{line}").unwrap();
        assert_eq!(
            link.address("shop", "/trees/shop", "src/a b{line}.rs", 7),
            "https://forge.example/r/shop/src/a%20b%7Bline%7D.rs#L7"
        );
        let editor = CodeLink::parse("editor=vscode://file{root}/{path}:{line}").unwrap();
        assert_eq!(editor.address("x", "/trees/shop", "a.rs", 1), "vscode://file/trees/shop/a.rs:1");
        for wrong in [
            "editor",
            "=x:{path}",
            "a=javascript:alert({path})",
            "a=/file/{path}",
            "a=https://x/",
            "a=DATA:{path}",
        ] {
            assert!(CodeLink::parse(wrong).is_err(), "{wrong}");
        }
    }
}
