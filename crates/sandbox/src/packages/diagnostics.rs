//! Error messages of package managers.

/// The lines of a package manager's output that contain one of `marks`, shortened and without passwords.
pub(super) fn error_lines(text: &str, marks: &[&str]) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| marks.iter().find_map(|mark| line.trim().strip_prefix(mark)))
        .collect();
    let message: String = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let message: String = message.chars().filter(|c| !c.is_control()).take(300).collect();
    if message.is_empty() { "it gave no reason".to_owned() } else { without_passwords(&message) }
}

/// Removes user information before an `@` from URLs.
pub(super) fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let host = part.split(['/', ' ', '\'', '"', ')', '>']).next().unwrap_or_default();
        let user = host.rfind('@').map_or(0, |at| at + 1);
        clean.push_str("://");
        clean.push_str(&part[user..]);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostics_are_short_and_omit_passwords() {
        let said = "Looking in https://a\nERROR: no x at https://user:secret@host/simple/x\n  ERROR: none\n";
        assert_eq!(error_lines(said, &["ERROR:"]), "no x at https://host/simple/x none");
        assert_eq!(error_lines("", &["ERROR:"]), "it gave no reason");
        assert_eq!(error_lines(&format!("ERROR:{}", "x".repeat(999)), &["ERROR:"]).len(), 300);
    }
}
