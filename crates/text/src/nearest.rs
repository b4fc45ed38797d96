//! Suggestions for unknown names.

/// Characters of the shortest beginning of a name that suggests it.
const MIN_BEGINNING: usize = 3;

/// At most `n` distinct `candidates`, by similarity to `wanted`, ignoring case; equal ones are in the order of
/// their names. Of paths and qualified names, the part after the last `/` or `.` counts as much as the whole, and those
/// that end with `wanted` come first.
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

/// At most `n` distinct `candidates` that `wanted` may be a misspelling or the beginning of, ignoring case, the most similar
/// first: one edit is allowed for every three characters, and at least one. A transposition of neighbors is one edit.
pub fn misspelled<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>, n: usize) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let length = wanted.chars().count();
    let edits = |candidate: &'a str| {
        let lower = candidate.to_lowercase();
        let edits = strsim::damerau_levenshtein(&wanted, &lower);
        // As many edits as characters would turn anything into anything.
        let is_close = edits <= (length / 3).max(1) && edits < length.max(lower.chars().count());
        (is_close || length >= MIN_BEGINNING && lower.starts_with(&wanted)).then_some((edits, candidate))
    };
    let mut close: Vec<(usize, &str)> = candidates.into_iter().filter_map(edits).collect();
    close.sort_unstable();
    close.dedup();
    close.into_iter().take(n).map(|(_, candidate)| candidate.to_owned()).collect()
}

/// The number of edits between two words, if it is at most `most`; a transposition of neighbors is one edit. Words of very
/// different lengths or letters are not compared.
pub fn edits_within(a: &str, b: &str, most: usize) -> Option<usize> {
    let letters = |word: &str| word.bytes().fold(0_u32, |letters, byte| letters | 1 << (byte % 32));
    // An edit adds at most one letter on either side.
    let is_far =
        a.len().abs_diff(b.len()) > 4 * most || (letters(a) ^ letters(b)).count_ones() as usize > 2 * most;
    let edits = if is_far { most + 1 } else { strsim::osa_distance(a, b) };
    (edits <= most).then_some(edits)
}

/// The question whether one of the `candidates` is meant by `wanted`; `None` if it is similar to none of them.
pub fn did_you_mean<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<String> =
        misspelled(wanted, candidates, 2).iter().map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| format!("did you mean {}?", names.join(" or ")))
}

/// A question that suggests those of `candidates` that are similar to `wanted`, or a list of all if none is.
pub fn did_you_mean_or_all<'a>(
    wanted: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    did_you_mean(wanted, candidates.clone()).unwrap_or_else(|| {
        format!("expected one of {}", candidates.into_iter().collect::<Vec<_>>().join(", "))
    })
}

/// A message of serde about a file that people write, in their words: what was expected and what was found, and for an
/// unknown name the names that may be meant in place of all that are known.
///
/// ```
/// let plain = quarry_text::plain_message;
/// assert_eq!(
///     plain("unknown field `juge`, expected one of `judge`, `model`"),
///     "unknown field `juge`; did you mean `judge`?",
/// );
/// assert_eq!(
///     plain("invalid type: string \"two\", expected usize"),
///     "expected a whole number of 0 or more, found the string \"two\"",
/// );
/// ```
pub fn plain_message(message: &str) -> String {
    if let Some(invalid) =
        ["invalid type: ", "invalid value: "].iter().find_map(|start| message.strip_prefix(start))
        && let Some((found, expected)) = invalid.rsplit_once(", expected ")
    {
        return format!("expected {}, found {}", describe_expected(expected), describe_found(found));
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        return format!("{name} is missing");
    }
    let is_unknown = message.starts_with("unknown field `") || message.starts_with("unknown variant `");
    let Some((unknown, expected)) = message.split_once("`, expected ").filter(|_| is_unknown) else {
        return message.to_owned();
    };
    let wanted = unknown.split_once('`').map_or("", |(_, name)| name);
    // The names are between pairs of backticks.
    let candidates = expected.split('`').skip(1).step_by(2);
    let unknown = unknown.replacen("unknown variant", "unknown value", 1);
    match did_you_mean(wanted, candidates) {
        Some(question) => format!("{unknown}`; {question}"),
        None => format!("{unknown}`, expected {expected}"),
    }
}

fn describe_expected(expected: &str) -> &str {
    match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number of 0 or more",
        "a nonzero usize" | "a nonzero u64" | "a nonzero u32" => "a whole number of 1 or more",
        "isize" | "i64" | "i32" | "i16" | "i8" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        "path string" => "a path",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    }
}

fn describe_found(found: &str) -> String {
    let bare = |text: &str| text.trim_matches('`').to_owned();
    match found.split_once(' ') {
        Some(("string", text)) => format!("the string {text}"),
        Some(("integer" | "boolean", value)) => bare(value),
        Some(("floating", value)) => bare(value.trim_start_matches("point ")),
        _ if found == "sequence" => "a list".to_owned(),
        _ if found == "map" => "a table".to_owned(),
        _ => found.to_owned(),
    }
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
    fn edits_are_counted_up_to_a_limit() {
        assert_eq!(edits_within("preprendshemeifneded", "prependschemeifneeded", 3), Some(3));
        assert_eq!(edits_within("preprendshemeifneded", "prependschemeifneeded", 2), None);
        assert_eq!(edits_within("abc", "acb", 1), Some(1));
        assert_eq!(edits_within("größe", "grösse", 2), Some(2));
        assert_eq!(edits_within("", "abcdef", 1), None);
    }

    #[test]
    fn the_last_part_counts_as_much_as_the_whole() {
        assert_eq!(nearest("totl", ["Cart.total", "Card.tot.name"], 1), ["Cart.total"]);
    }

    #[test]
    fn only_misspellings_are_suggested() {
        let check = |wanted, expected: &[&str]| {
            let commands = ["search", "index", "serve", "cache", "mcp", "k", "id", "judge"];
            assert_eq!(misspelled(wanted, commands, 3), expected, "{wanted}");
        };
        check("serach", &["search"]);
        check("SEARCH", &["search"]);
        check("mpc", &["mcp"]);
        check("kk", &["k"]);
        check("juge", &["judge"]);
        check("cach", &["cache"]);
        check("sea", &["search"]);
        check("x", &[]);
        check("", &[]);
        check("unrelated", &[]);
        assert_eq!(
            misspelled("batc", ["batches", "batch", "bath", "batch"], 3),
            ["batch", "bath", "batches"]
        );
        let question = did_you_mean("batc", ["batch", "bath"]);
        assert_eq!(question.as_deref(), Some("did you mean `batch` or `bath`?"));
        assert_eq!(did_you_mean_or_all("batc", ["batch"]), "did you mean `batch`?");
        assert_eq!(did_you_mean_or_all("x", ["batch", "k"]), "expected one of batch, k");
    }

    #[test]
    fn mistakes_are_described_in_plain_words() {
        let check = |message, expected| assert_eq!(plain_message(message), expected);
        check("unknown field `kk`, expected `k` or `depth`", "unknown field `kk`; did you mean `k`?");
        check(
            "unknown variant `bm52`, expected one of `bm25`, `bow`",
            "unknown value `bm52`; did you mean `bm25`?",
        );
        check("unknown variant `x`, expected `bm25` or `bow`", "unknown value `x`, expected `bm25` or `bow`");
        check("missing field `k`", "`k` is missing");
        check("invalid type: integer `3`, expected a string", "expected a string, found 3");
        check(
            "invalid type: floating point `0.5`, expected usize",
            "expected a whole number of 0 or more, found 0.5",
        );
        check("invalid value: integer `-1`, expected u32", "expected a whole number of 0 or more, found -1");
        check("invalid type: boolean `true`, expected f64", "expected a number, found true");
        check("invalid type: sequence, expected struct Candidates", "expected a table, found a list");
        check("invalid type: map, expected a sequence", "expected a list, found a table");
        check(
            "invalid type: string \"k, expected `k\", expected u32",
            "expected a whole number of 0 or more, found the string \"k, expected `k\"",
        );
        for unchanged in [
            "unknown field `frobnicate`, expected one of `k`, `depth`",
            "unknown field `x`, there are no fields",
            "invalid length 3, expected an array of length 2",
            "",
        ] {
            check(unchanged, unchanged);
        }
    }

    #[test]
    fn names_with_the_same_ending_come_first() {
        assert_eq!(nearest("total", ["totals", "Cart.total"], 1), ["Cart.total"]);
        assert_eq!(nearest("header.rs", ["src/http/header.rs", "reader.rs"], 1), ["src/http/header.rs"]);
    }
}
