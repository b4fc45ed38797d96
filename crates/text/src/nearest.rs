//! Suggestions for unknown names.

/// At most `n` distinct `candidates`, by similarity to `wanted`, ignoring case; equal ones are in the order of
/// their names. Of paths and qualified names, the part after the last `/` or `.` counts as much as the whole, and those
/// that end with `wanted` come first.
#[must_use]
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>, n: usize) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let likeness = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let is_end = candidate.strip_suffix(&wanted).is_some_and(|before| before.ends_with(['/', '.']));
        strsim::normalized_damerau_levenshtein(&wanted, &candidate)
            + strsim::jaro_winkler(last_part(&wanted), last_part(&candidate))
            + f64::from(u8::from(is_end))
    };
    let mut ranked: Vec<(f64, &str)> =
        candidates.into_iter().map(|candidate| (likeness(candidate), candidate)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    ranked.dedup_by_key(|(_, candidate)| *candidate);
    ranked.into_iter().take(n).map(|(_, candidate)| candidate.to_owned()).collect()
}

fn last_part(name: &str) -> &str {
    name.rsplit(['/', '.']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first() {
        let names = ["Parser.read", "Parser.write", "open_file", "Parser.read"];
        assert_eq!(nearest("Parser.raed", names, 1), ["Parser.read"]);
        assert_eq!(nearest("OpenFile", names, 1), ["open_file"]);
        assert_eq!(nearest("x", names, 9).len(), 3);
        assert_eq!(nearest("x", [], 3), [""; 0]);
        assert_eq!(nearest("", names, 1).len(), 1);
    }

    #[test]
    fn the_last_part_counts_as_much_as_the_whole() {
        assert_eq!(nearest("totl", ["Cart.total", "Card.tot.name"], 1), ["Cart.total"]);
    }

    #[test]
    fn what_ends_with_it_comes_first() {
        assert_eq!(nearest("total", ["totals", "Cart.total"], 1), ["Cart.total"]);
        assert_eq!(nearest("header.rs", ["src/http/header.rs", "reader.rs"], 1), ["src/http/header.rs"]);
    }
}
