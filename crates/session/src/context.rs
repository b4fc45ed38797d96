//! The code that answers a query within a budget of tokens: whole functions first, then the signatures of what belongs to
//! them, each line once, with files and line numbers.
//!
//! Functions are chosen by expected gain per token: the gain of the result of rank r is 1/r, its cost the square root of its
//! number of tokens; the best one that still fits is taken until none does. Imports are not shown. Both powers were the
//! best of seven pairs by `quarry eval repo-search --policy context`, cross-validated by repository.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quarry_index::{Error, Filter, Hit, Index, RankingWeights, SearchRequest};
use quarry_source::{SourceText, UnitKind};
use rayon::prelude::*;

use crate::count_tokens;
use crate::text::{numbered, position_to, quoted, unit_label};

/// Number of results that functions are chosen from.
const CANDIDATES: usize = 40;

/// Number of results listed if none clearly answers the query, and of those named where their code does not fit.
const NEAREST: usize = 3;

/// Number of results whose types, callees and callers are shown.
const RELATED_OF: usize = 3;

/// Number of callers of a result that are shown.
const CALLERS: usize = 3;

/// Approximate tokens of a signature and its position: with fewer left, callers are not searched for.
const SIGNATURE_TOKENS: usize = 40;

/// The requested code.
#[derive(Debug, Clone)]
pub struct ContextRequest<'a> {
    /// A description of the code, or the name of a symbol.
    pub query: &'a str,
    /// Filter of the units that may be shown.
    pub filter: &'a Filter,
    pub ranking: &'a RankingWeights,
    /// Maximum number of tokens of the answer ([`count_tokens`]).
    pub max_tokens: usize,
    /// Prefix of the paths of each of the searched paths, by number; empty for none.
    pub prefixes: &'a [String],
}

/// Code for a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// As agents read it.
    pub text: String,
    /// True if a result clearly answers the query; `None` if that cannot be decided.
    pub confident: Option<bool>,
    /// Confidence that a result answers, 0 to 1.
    pub confidence: f32,
    /// The units that are shown in full, best first.
    pub shown: Vec<usize>,
}

/// A definition that may be shown, or a part between definitions.
struct Candidate {
    hit: Hit,
    end_line: u32,
    /// Location and signature.
    heading: String,
    /// Lines with their numbers.
    lines: Vec<(u32, String)>,
    n_tokens: usize,
}

impl Candidate {
    fn text(&self) -> String {
        let lines: String = self.lines.iter().map(|(number, line)| numbered(*number, line)).collect();
        format!("{}{lines}", self.heading)
    }

    /// Returns true if at least half of its lines are imports, as at the top of a file.
    fn is_imports(&self, index: &Index) -> bool {
        if self.hit.kind != UnitKind::Module {
            return false;
        }
        let starts = index.import_lines(&self.hit);
        let (mut is_import, mut n_imports, mut n_lines) = (false, 0, 0);
        for (number, line) in self.lines.iter().filter(|(_, line)| !line.trim().is_empty()) {
            // A statement continues on indented lines, up to a closing bracket.
            is_import = starts.contains(number)
                || is_import && line.starts_with(|c: char| c.is_whitespace() || ")]}".contains(c));
            n_imports += usize::from(is_import);
            n_lines += 1;
        }
        n_imports > 0 && 2 * n_imports >= n_lines
    }
}

/// The code that answers a query, of at most [`ContextRequest::max_tokens`] tokens.
///
/// # Errors
/// When the query has no word, the model fails, or the index cannot be read.
pub fn context(index: &Index, request: &ContextRequest) -> Result<Context, Error> {
    let ContextRequest { query, filter, ranking, max_tokens, prefixes } = request;
    let ranking = (*ranking).clone();
    let response = index.search(&SearchRequest { query, limit: CANDIDATES, ranking, filter })?;
    let (confident, confidence) = (response.is_confident(None), response.confidence);
    if response.hits.is_empty() || confident == Some(false) {
        let text = fitting(no_answer_text(index, &response.hits, prefixes), *max_tokens);
        return Ok(Context { text, confident: Some(false), confidence, shown: Vec::new() });
    }
    let candidates = candidates(index, &response.hits, prefixes);
    let chosen = choose(&candidates, *max_tokens);
    let mut pieces: Vec<(usize, String)> =
        chosen.iter().map(|position| (*position, candidates[*position].text())).collect();
    let mut left =
        max_tokens.saturating_sub(chosen.iter().map(|position| candidates[*position].n_tokens).sum());
    let is_shown =
        |position: &usize| chosen.iter().any(|other| overlap(&candidates[*position], &candidates[*other]));
    let unshown: Vec<usize> =
        (0..candidates.len().min(NEAREST)).filter(|position| !is_shown(position)).collect();
    let heading_tokens = |position: usize| count_tokens(&candidates[position].heading);
    // The first result is named even if it does not fit, the next ones if there is room.
    if unshown.first() == Some(&0) {
        left = left.saturating_sub(heading_tokens(0));
    }
    let shown: Vec<&Candidate> = chosen.iter().map(|position| &candidates[*position]).collect();
    let related = related(index, &shown, left, prefixes)?;
    left = left.saturating_sub(related.iter().map(|piece| count_tokens(piece)).sum());
    for position in unshown {
        let n_tokens = if position == 0 { 0 } else { heading_tokens(position) };
        if n_tokens <= left {
            left -= n_tokens;
            pieces.push((position, candidates[position].heading.clone()));
        }
    }
    pieces.sort_by_key(|(position, _)| *position);
    let pieces = pieces.into_iter().map(|(_, piece)| piece).chain(related).collect();
    let text = fitting(pieces, *max_tokens);
    Ok(Context {
        text,
        confident,
        confidence,
        shown: shown.iter().map(|candidate| candidate.hit.unit).collect(),
    })
}

/// The text for when nothing clearly answers, with the closest results.
fn no_answer_text(index: &Index, hits: &[Hit], prefixes: &[String]) -> Vec<String> {
    let mut pieces = vec![no_answer_heading(hits.is_empty(), false)];
    let nearest = hits.iter().take(NEAREST);
    pieces.extend(nearest.map(|hit| {
        let hit = beginning(index, hit);
        heading(&hit, index.last_line(&hit), prefixes)
    }));
    pieces
}

fn heading(hit: &Hit, end_line: u32, prefixes: &[String]) -> String {
    let path = prefixed(hit, prefixes);
    format!("{}\n", position_to(&Hit { path, ..hit.clone() }, end_line))
}

/// The path of a unit as it is shown.
pub(crate) fn prefixed(hit: &Hit, prefixes: &[String]) -> String {
    format!("{}{}", prefixes.get(hit.root).map_or("", String::as_str), hit.path)
}

/// Number of tokens of the files that units are in, each counted once.
pub fn file_tokens(index: &Index, units: &[usize]) -> usize {
    let hits: Vec<Hit> = units.iter().map(|unit| index.unit(*unit)).collect();
    let mut files: BTreeMap<(usize, &str), &Hit> = BTreeMap::new();
    for hit in &hits {
        files.entry((hit.root, hit.path.as_str())).or_insert(hit);
    }
    let texts = files.into_values().filter_map(|hit| index.text(hit).ok());
    texts.map(|text| count_tokens(&text.to_str())).sum()
}

/// The text about a search that found nothing, or nothing that clearly answers.
pub fn no_answer_heading(is_empty: bool, is_filtered: bool) -> String {
    let advice = "Try other words for what the code does, or the name of a symbol";
    let filters = if is_filtered { ", or fewer filters" } else { "" };
    match is_empty {
        true => format!("Nothing found. {advice}{filters}.\n"),
        false => format!("Nothing here clearly answers this. {advice}{filters}. Nearest:\n"),
    }
}

/// As many pieces as fit together, starting with the first.
fn fitting(mut pieces: Vec<String>, max_tokens: usize) -> String {
    loop {
        let text = pieces.concat();
        // Tokens may span pieces, so that only the count of the whole is exact.
        if count_tokens(&text) <= max_tokens || pieces.pop().is_none() {
            return text;
        }
    }
}

/// The beginning of the definition that a unit belongs to, or of the unit itself if it belongs to none.
fn beginning(index: &Index, hit: &Hit) -> Hit {
    match hit.kind {
        UnitKind::Module | UnitKind::Section => hit.clone(),
        _ if !hit.signature.is_empty() => hit.clone(),
        _ => index.definition_at_in(hit.root, &hit.path, hit.start_line).unwrap_or_else(|| hit.clone()),
    }
}

/// The definitions behind results, best first; imports only if there is nothing else.
fn candidates(index: &Index, hits: &[Hit], prefixes: &[String]) -> Vec<Candidate> {
    let mut seen = BTreeSet::new();
    let hits: Vec<Hit> =
        hits.iter().map(|hit| beginning(index, hit)).filter(|hit| seen.insert(hit.unit)).collect();
    // Each file is read once. Some may have been removed since the index was opened.
    let files: BTreeMap<(usize, &str), &Hit> =
        hits.iter().map(|hit| ((hit.root, hit.path.as_str()), hit)).collect();
    let texts: HashMap<(usize, &str), SourceText> =
        files.into_par_iter().filter_map(|(file, hit)| Some((file, index.text(hit).ok()?))).collect();
    let of_hit = |hit: &Hit| {
        let text = texts.get(&(hit.root, hit.path.as_str()))?;
        Some(candidate(index, hit, text, prefixes))
    };
    let all: Vec<Candidate> = hits.par_iter().filter_map(of_hit).collect();
    let (imports, found): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|candidate| candidate.is_imports(index));
    if found.is_empty() { imports } else { found }
}

fn candidate(index: &Index, hit: &Hit, text: &SourceText, prefixes: &[String]) -> Candidate {
    let end_line = index.last_line(hit);
    let content = text.to_str();
    let lines = content.lines().enumerate().skip(index.lines(hit, text).start);
    let lines = lines
        .map(|(line, code)| (text.line_number(line), code.to_owned()))
        .take_while(|(number, _)| *number <= end_line)
        .collect();
    let heading = heading(hit, end_line, prefixes);
    let mut candidate = Candidate { hit: hit.clone(), end_line, heading, lines, n_tokens: 0 };
    candidate.n_tokens = count_tokens(&candidate.text());
    candidate
}

/// The positions of the candidates that are shown, ascending: greedily those with the largest gain per cost that still fit.
fn choose(candidates: &[Candidate], max_tokens: usize) -> Vec<usize> {
    let value = |position: usize| {
        let (rank, candidate) = ((position + 1) as f64, &candidates[position]);
        1.0 / (rank * (candidate.n_tokens as f64).max(1.0).sqrt())
    };
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
    let mut left = max_tokens;
    let mut chosen: Vec<usize> = Vec::new();
    for position in order {
        let candidate = &candidates[position];
        if candidate.n_tokens <= left && !chosen.iter().any(|other| overlap(candidate, &candidates[*other])) {
            left -= candidate.n_tokens;
            chosen.push(position);
        }
    }
    chosen.sort_unstable();
    chosen
}

fn overlap(a: &Candidate, b: &Candidate) -> bool {
    (a.hit.root, &a.hit.path) == (b.hit.root, &b.hit.path)
        && a.hit.start_line <= b.end_line
        && b.hit.start_line <= a.end_line
}

/// The signatures of the types that contain what is shown, of what it calls, and of its callers, as far as they fit.
fn related(
    index: &Index,
    shown: &[&Candidate],
    mut left: usize,
    prefixes: &[String],
) -> Result<Vec<String>, Error> {
    let mut pieces = Vec::new();
    let mut seen: BTreeSet<usize> = shown.iter().map(|candidate| candidate.hit.unit).collect();
    let is_shown = |hit: &Hit| {
        shown.iter().any(|candidate| {
            (candidate.hit.root, &candidate.hit.path) == (hit.root, &hit.path)
                && (candidate.hit.start_line..=candidate.end_line).contains(&hit.start_line)
        })
    };
    let mut push = |heading: &str, hits: Vec<Hit>, left: &mut usize, pieces: &mut Vec<String>| {
        let mut is_headed = false;
        for hit in hits {
            if is_shown(&hit) || !seen.insert(hit.unit) {
                continue;
            }
            let heading = if is_headed { "" } else { heading };
            let piece = format!("{heading}{}", declaration(&hit, prefixes));
            let n_tokens = count_tokens(&piece);
            if n_tokens > *left {
                break;
            }
            *left -= n_tokens;
            is_headed = true;
            pieces.push(piece);
        }
    };
    for Candidate { hit, .. } in shown.iter().take(RELATED_OF) {
        if let Some((owner, _)) = hit.name.rsplit_once('.') {
            let types = index.file(hit.root, &hit.path).into_iter().flat_map(|file| {
                file.hits()
                    .filter(|unit| unit.name == owner && !unit.signature.is_empty())
                    .collect::<Vec<_>>()
            });
            push("In:\n", types.collect(), &mut left, &mut pieces);
        }
    }
    for Candidate { hit, .. } in shown.iter().take(RELATED_OF) {
        if left < SIGNATURE_TOKENS || !matches!(hit.kind, UnitKind::Function | UnitKind::Method) {
            continue;
        }
        let called = index.callees(hit)?.found.into_iter().filter(|callee| callee.is_certain);
        let called = called.filter_map(|callee| callee.definitions.first().map(|unit| index.unit(*unit)));
        push(
            &format!("{} calls:\n", unit_label(hit.kind, &hit.name)),
            called.collect(),
            &mut left,
            &mut pieces,
        );
    }
    if let Some(Candidate { hit, .. }) = shown.first().filter(|_| left >= SIGNATURE_TOKENS)
        && matches!(hit.kind, UnitKind::Function | UnitKind::Method)
    {
        let sites = index.callers(&hit.name, std::slice::from_ref(hit), &Filter::default())?.found;
        let callers = sites.into_iter().filter(|site| site.is_certain).filter_map(|site| site.caller);
        let callers: Vec<Hit> = callers.filter(|hit| !hit.signature.is_empty()).take(CALLERS).collect();
        push(
            &format!("{} is called by:\n", unit_label(hit.kind, &hit.name)),
            callers,
            &mut left,
            &mut pieces,
        );
    }
    Ok(pieces)
}

/// Location and signature of a declaration.
fn declaration(hit: &Hit, prefixes: &[String]) -> String {
    let path = prefixed(hit, prefixes);
    format!("{}:{}\n{}", quoted(&path), hit.start_line, numbered(hit.start_line, &hit.signature))
}

#[cfg(test)]
mod tests {
    use quarry_index::OpenOptions;
    use quarry_test_support::files::write_below;
    use tempfile::TempDir;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> (TempDir, Index) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("tree");
        write_below(&root, files);
        let options =
            OpenOptions { directory: Some(directory.path().join("index")), ..OpenOptions::default() };
        let index = Index::open_or_build(&root, &options, None, &|_| {}).unwrap().index;
        (directory, index)
    }

    fn ask(index: &Index, query: &str, max_tokens: usize) -> Context {
        let (filter, ranking) = (Filter::default(), RankingWeights::default());
        let (filter, ranking) = (&filter, &ranking);
        let request = ContextRequest { query, filter, ranking, max_tokens, prefixes: &[] };
        context(index, &request).unwrap()
    }

    const SHOP: &str = "class Cart:\n    \"\"\"Goods that somebody buys.\"\"\"\n\n    def total_price(self):\n        \"\"\"Sum the prices of all goods.\"\"\"\n        return add_prices(self.goods)\n\n\ndef add_prices(goods):\n    return sum(good.price for good in goods)\n\n\ndef check_out(cart: Cart):\n    return Cart.total_price(cart)\n";

    #[test]
    fn whole_functions_come_with_the_signatures_around_them_and_no_line_twice() {
        let (_directory, index) = tree(&[("shop.py", SHOP)]);
        let found = ask(&index, "Cart.total_price", 60);
        assert!(
            found.text.starts_with("shop.py:4-6 method Cart.total_price\n4|     def total_price(self):\n"),
            "{}",
            found.text
        );
        assert!(found.text.contains("In:\nshop.py:1\n1| class Cart"), "{}", found.text);
        let found = ask(&index, "Cart.total_price", 2_000);
        let mut lines: Vec<&str> = found.text.lines().filter(|line| line.contains("| ")).collect();
        let n_lines = lines.len();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), n_lines, "{}", found.text);
    }

    #[test]
    fn no_answer_is_longer_than_its_budget() {
        let long: String =
            (0..200).map(|n| format!("    价格 = \"\u{1f600}{n}\" + goods[{n}] # {n:x}\n")).collect();
        let many: String =
            (0..60).map(|n| format!("def price_{n}(goods):\n    return goods.price * {n}\n\n\n")).collect();
        let long = format!("def long_price(goods):\n{long}    return price\n\n\n{many}");
        let odd = "a name with spaces and | ` \u{202e} that is rather big/".repeat(3);
        let (_directory, index) =
            tree(&[("shop.py", SHOP), ("long.py", &long), (&format!("{odd}x.py"), SHOP)]);
        for query in
            ["price of all goods", "long_price", "add_prices", "knitting patterns", "price goods return sum"]
        {
            for max_tokens in (0..200).step_by(7).chain([300, 500, 1_000, 4_000, 16_000]) {
                let text = ask(&index, query, max_tokens).text;
                assert!(count_tokens(&text) <= max_tokens, "{query} {max_tokens}: {text}");
            }
        }
        let text = ask(&index, "long_price", 400).text;
        assert!(text.contains("long.py:1-202 function long_price\n"), "named though it does not fit: {text}");
    }

    #[test]
    fn the_best_results_are_named_where_they_do_not_fit() {
        let long: String = (0..100).map(|n| format!("    prices.append(goods[{n}].price)\n")).collect();
        let long =
            format!("def add_prices_of_goods(goods):\n    prices = []\n{long}    return sum(prices)\n");
        let (_directory, index) = tree(&[("shop.py", SHOP), ("long.py", &long)]);
        let text = ask(&index, "add_prices", 150).text;
        assert!(text.contains("| def add_prices(goods)"), "{text}");
        assert!(text.contains("long.py:1-103 function add_prices_of_goods\n"), "{text}");
        assert!(!text.contains("| def add_prices_of_goods"), "{text}");
    }

    #[test]
    fn unanswered_queries_get_a_short_message() {
        let (_directory, index) = tree(&[("shop.py", SHOP)]);
        let found = ask(&index, "knitting patterns for woollen mittens and the prices", 4_000);
        assert_eq!(found.confident, Some(false), "{}", found.text);
        assert!(found.text.starts_with("Nothing ") && count_tokens(&found.text) < 100, "{}", found.text);
    }

    #[test]
    fn imports_and_tests_do_not_take_the_room_of_code() {
        let imports = "import price_table\nfrom prices import (\n    price_of_goods,\n    sum_prices,\n)\n# Prices of goods.\n\nimport goods_price\n\n\n";
        let test = "def test_price_of_goods():\n    assert price_of_goods(goods) == sum_prices(goods)\n";
        let code = "def price_of_goods(goods):\n    total = 0\n    for good in goods:\n        total += sum_prices(good)\n    return total\n";
        let (_directory, index) = tree(&[
            ("shop.py", &format!("{imports}{code}")),
            ("tests/test_shop.py", &format!("{imports}{test}")),
        ]);
        let text = ask(&index, "sum the prices of goods", 2_000).text;
        assert!(!text.contains("from prices"), "{text}");
        let (code, test) =
            (text.find("| def price_of_goods").unwrap(), text.find("| def test_price").unwrap());
        assert!(code < test, "{text}");
        let room = count_tokens(&text[..test]);
        let text = ask(&index, "sum the prices of goods", room).text;
        assert!(text.contains("def price_of_goods") && !text.contains("def test_price"), "{text}");
        // A module of settings is code.
        let (_directory, index) =
            tree(&[("settings.py", "import os\n\nPRICE_LIMIT = 5\nPRICE_UNIT = 'cent'\n")]);
        let text = ask(&index, "limit and unit of a price", 2_000).text;
        assert!(text.contains("| PRICE_LIMIT = 5"), "{text}");
        // There is nothing else.
        let (_directory, index) = tree(&[("a.py", "import price_table\nimport price_list\n")]);
        assert!(ask(&index, "price table", 2_000).text.contains("| import price_table"));
    }

    #[test]
    fn the_files_of_what_is_shown_are_counted_once() {
        let (_directory, index) = tree(&[("shop.py", SHOP)]);
        let found = ask(&index, "sum the prices of all goods", 2_000);
        assert!(found.shown.len() > 1, "{}", found.text);
        assert_eq!(file_tokens(&index, &found.shown), count_tokens(SHOP));
    }
}
