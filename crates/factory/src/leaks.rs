//! Detects leaks between the parts of a data set, and from other data sets such as public test sets: equal texts and
//! near-duplicates. White space does not count, nor do comments in code.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::slice;

use quarry_corpus::dataset;
use quarry_corpus::dataset::compared::{bare, layout_hash};
use quarry_corpus::dataset::near::NearIndex;
use quarry_corpus::formats::Record;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::FactoryError;
use crate::jsonl::{self, Writer};
use crate::outputs::{PARTS, part_file};
use crate::plan::{LeakAction, LeakPlan, SplitPlan};
use crate::record::{PairRecord, normalized_hash};
use crate::step::{Key, Step, content_hash};

/// Incremented when the same parts lead to other output.
const VERSION: u32 = 2;

/// Leaking pairs, with what they share and with which part or data set.
const LEAKS: &str = "leaks.jsonl";

#[derive(Serialize)]
struct Identity<'p> {
    plan: &'p LeakPlan,
    /// Hashes of the other data sets.
    contents: Vec<String>,
    parts: &'p SplitPlan,
}

/// The step that detects leaks in the parts of a data set.
///
/// # Errors
/// When another data set cannot be read.
pub(crate) fn step(plan: &LeakPlan, parts: &SplitPlan, splits: &Key) -> Result<Step, FactoryError> {
    let contents = plan.against.iter().map(|path| content_hash(path)).collect::<Result<_, _>>()?;
    Ok(Step::new("leaks", VERSION, &Identity { plan, contents, parts }, &[splits]))
}

/// Checks the data sets that a plan names.
///
/// # Errors
/// When one of them is missing, or in an unknown format.
pub(crate) fn check(plan: &LeakPlan) -> Result<(), FactoryError> {
    plan.against.iter().try_for_each(|path| {
        dataset::sources(slice::from_ref(path), "", "test")?;
        Ok(())
    })
}

/// Texts of one kind, each with the part or data set it belongs to.
struct Texts {
    hashes: HashMap<u128, usize>,
    near: Option<NearIndex>,
    /// The owner of each text in `near`.
    of_near: Vec<usize>,
}

impl Texts {
    fn new(near: Option<f64>) -> Self {
        Self { hashes: HashMap::new(), near: near.map(NearIndex::new), of_near: Vec::new() }
    }

    fn add(&mut self, text: &Compared, owner: usize) {
        let is_new = text.hashes.first().is_some_and(|hash| !self.hashes.contains_key(hash));
        for hash in &text.hashes {
            self.hashes.entry(*hash).or_insert(owner);
        }
        if let Some(near) = self.near.as_mut().filter(|_| is_new) {
            near.add(&text.text);
            self.of_near.push(owner);
        }
    }

    /// The owner of the text, and whether it is equal or only nearly.
    fn find(&self, text: &Compared) -> Option<(usize, &'static str)> {
        let same =
            text.hashes.iter().find_map(|hash| self.hashes.get(hash)).map(|owner| (*owner, "the same"));
        let near = || Some((*self.of_near.get(self.near.as_ref()?.find(&text.text)?)?, "nearly identical"));
        same.or_else(near)
    }
}

/// The form in which a text is compared.
struct Compared {
    text: String,
    /// One of them is also that of an equal text. None for a blank text, which is equal to none.
    hashes: Vec<u128>,
}

impl Compared {
    fn new(text: String, hashes: Vec<u128>) -> Self {
        let hashes = if text.trim().is_empty() { Vec::new() } else { hashes };
        Self { text, hashes }
    }

    fn query(text: &str) -> Self {
        let text = text.to_lowercase();
        let hash = normalized_hash(&text);
        Self::new(text, vec![hash])
    }

    /// A code without its comments. Its whole text counts too: where the language is not known, it may be compared
    /// with its comments.
    fn code(text: &str, language: Option<&str>) -> Self {
        let bare = bare(text, language);
        let mut hashes = vec![layout_hash(&bare), layout_hash(text)];
        hashes.dedup();
        Self::new(bare.into_owned(), hashes)
    }
}

/// A pair that shares something with another part or data set.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Leak {
    part: String,
    pair: String,
    query: String,
    code_id: String,
    why: String,
}

/// A pair of a part, with its texts in the form in which they are compared.
struct Pair {
    pair: PairRecord,
    query: Compared,
    code: Compared,
}

impl Pair {
    fn new(pair: PairRecord) -> Self {
        let query = Compared::query(&pair.query);
        let code = Compared::code(&pair.code, Some(&pair.language));
        Self { pair, query, code }
    }
}

/// Texts that parts must not contain.
struct Known {
    owners: Vec<String>,
    queries: Texts,
    /// Codes of other data sets.
    codes: Texts,
    /// Codes that answer a query of a part.
    answers: Texts,
}

impl Known {
    fn new(plan: &LeakPlan) -> Result<Self, FactoryError> {
        let [queries, codes, answers] = [(); 3].map(|()| Texts::new(plan.near));
        let mut known = Self { owners: Vec::new(), queries, codes, answers };
        for path in &plan.against {
            let owner = known.owners.len();
            known.owners.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
            let sources = dataset::sources(slice::from_ref(path), "", "test")?;
            dataset::for_each(&sources, &mut |_, record| {
                match record {
                    Record::Pair(pair) => {
                        known.queries.add(&Compared::query(&pair.query.text), owner);
                        known.codes.add(&Compared::code(&pair.code.text, pair.language.as_deref()), owner);
                    }
                    Record::Query(query) => known.queries.add(&Compared::query(&query.text), owner),
                    Record::Document(document) => {
                        let language = document.language_name();
                        known.codes.add(&Compared::code(&document.full_text(), language.as_deref()), owner);
                    }
                    Record::Judgment(_) | Record::Label(_) | Record::Retrieved(_) => {}
                }
                Ok(())
            })?;
        }
        Ok(known)
    }

    /// What a pair shares, and with which part or data set; whether it is the query.
    fn find(&self, Pair { pair, query, code }: &Pair) -> Option<(String, &str, bool)> {
        let query = self.queries.find(query).map(|found| ("query", found));
        let is_query = query.is_some();
        let code_of_other = || self.codes.find(code).map(|found| ("code", found));
        let answer = || {
            let found = self.answers.find(code).filter(|_| pair.is_positive());
            found.map(|found| ("code that answers", found))
        };
        let (what, (owner, how)) = query.or_else(code_of_other).or_else(answer)?;
        let owner = &self.owners[owner];
        Some((format!("{how} {what} is in {owner}"), owner, is_query))
    }

    /// Adds a part, whose texts the following ones must not contain.
    fn add_part(&mut self, name: &str, pairs: &[Pair]) {
        let owner = self.owners.len();
        self.owners.push(name.to_owned());
        for Pair { pair, query, code } in pairs {
            self.queries.add(query, owner);
            if pair.is_positive() {
                self.answers.add(code, owner);
            }
        }
    }
}

/// Writes the parts without leaks. A query is removed with all its pairs if another data set or a smaller part has it
/// too, or if one of its answers is in another data set or answers a query of a smaller part; any other pair with a
/// code of another data set is removed as well. Depending on the plan, leaks are only counted, or are an error.
///
/// # Errors
/// When a data set cannot be read, a part would be empty, or the plan refuses leaks and there are some.
pub(crate) fn write(
    plan: &LeakPlan,
    parts: &SplitPlan,
    splits: &Path,
    step: &Path,
) -> Result<BTreeMap<String, u64>, FactoryError> {
    let mut known = Known::new(plan)?;
    let directory = step.join(PARTS);
    fs::create_dir_all(&directory).map_err(FactoryError::write(&directory))?;
    // The smallest first, because texts are removed from the larger ones.
    let mut order: Vec<(&String, f64)> = parts.parts.iter().map(|(name, size)| (name, *size)).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut leaks = Writer::create(&step.join(LEAKS))?;
    let mut first: Option<Leak> = None;
    for (part, _) in order {
        let pairs: Vec<PairRecord> = jsonl::read_all(&part_file(splits, part))?;
        let pairs: Vec<Pair> = pairs.into_par_iter().map(Pair::new).collect();
        let (mut lost_queries, mut lost_pairs) = (HashSet::new(), HashSet::new());
        for pair in &pairs {
            let Some((why, owner, is_query)) = known.find(pair) else { continue };
            let Pair { pair, .. } = pair;
            *counts.entry(format!("pairs of {part} shared with {owner}")).or_default() += 1;
            if is_query || pair.is_positive() {
                lost_queries.insert(pair.query_id.clone());
            }
            lost_pairs.insert(pair.id.clone());
            let leak = Leak {
                part: part.clone(),
                pair: pair.id.clone(),
                query: pair.query.clone(),
                code_id: pair.code_id.clone(),
                why,
            };
            leaks.write(&leak)?;
            first.get_or_insert(leak);
        }
        let is_kept = |Pair { pair, .. }: &Pair| {
            plan.action != LeakAction::Remove
                || !lost_queries.contains(&pair.query_id) && !lost_pairs.contains(&pair.id)
        };
        let (kept, lost): (Vec<Pair>, Vec<Pair>) = pairs.into_iter().partition(is_kept);
        if kept.is_empty() {
            let problem = format!(
                "expected pairs that only {part} has, found none; look at {LEAKS}, and loosen [leaks] or add code"
            );
            return Err(FactoryError::step("leaks", problem));
        }
        if plan.action == LeakAction::Remove {
            counts.insert(format!("queries removed from {part}"), lost_queries.len() as u64);
            counts.insert(format!("pairs removed from {part}"), lost.len() as u64);
        }
        let mut writer = Writer::create(&part_file(step, part))?;
        kept.iter().try_for_each(|Pair { pair, .. }| writer.write(pair))?;
        writer.finish()?;
        known.add_part(part, &kept);
    }
    leaks.finish()?;
    if let (LeakAction::Refuse, Some(leak)) = (plan.action, &first) {
        let found: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let problem = format!(
            "expected parts that share nothing, found {}; the first is {:?} of {}: {}; remove them by action = \"remove\"",
            found.join(", "),
            leak.query,
            leak.part,
            leak.why
        );
        return Err(FactoryError::step("leaks", problem));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    type Removed = BTreeMap<String, Vec<String>>;
    type Counts = BTreeMap<String, u64>;

    use super::*;

    fn pair(query: &str, code: &str, label: i32) -> PairRecord {
        let code_id = format!("c-{}", code.split(' ').nth(1).unwrap_or(code));
        PairRecord {
            id: format!("{query}-{code_id}"),
            query_id: query.to_owned(),
            query: query.to_owned(),
            code_id,
            code: code.to_owned(),
            language: "python".to_owned(),
            label: Some(label),
            evidence: None,
        }
    }

    /// The pairs of each part after the step, as `query/code id`, and the counts.
    fn run(plan: &LeakPlan) -> Result<(Removed, Counts), FactoryError> {
        let directory = tempfile::tempdir().unwrap();
        let [splits, step] = ["splits", "step"].map(|name| directory.path().join(name));
        let parts = SplitPlan {
            parts: [("dev", 1.0), ("test", 1.0), ("train", 8.0)]
                .map(|(name, size)| (name.into(), size))
                .into(),
            ..SplitPlan::default()
        };
        let long =
            |last: &str| format!("def long(a): one two three four five six seven eight nine ten {last}");
        let found = [
            ("dev", vec![pair("sort a list", "def sort(a): return sorted(a)", 1)]),
            ("test", vec![pair("open file", &long("x"), 1), pair("open file", "def no(a): pass", 0)]),
            (
                "train",
                vec![
                    // The same answer as in dev, except for white space.
                    pair("order items", "def sort(a):  return sorted(a)", 1),
                    pair("order items", "def other(a): pass", 0),
                    // Nearly the same answer as in test.
                    pair("read it", &long("y"), 1),
                    // A code that is not an answer here may be one elsewhere.
                    pair("close file", "def close(a): a.close()", 1),
                    pair("close file", "def sort(a): return sorted(a)", 0),
                    pair("Known  query", "def known(a): return 7", 1),
                    pair("delete", "def delete(a): del a", 1),
                    pair("delete", "def public(b): return b", 0),
                ],
            ),
        ];
        fs::create_dir_all(splits.join(PARTS)).unwrap();
        fs::create_dir_all(&step).unwrap();
        for (part, pairs) in found {
            let mut writer = Writer::create(&part_file(&splits, part)).unwrap();
            pairs.iter().for_each(|pair| writer.write(pair).unwrap());
            writer.finish().unwrap();
        }
        let public = directory.path().join("public.jsonl");
        fs::write(
            &public,
            "{\"query\": \"known query\", \"code\": \"def public(b):\\n  return b\"}\n{\"query\": \"q\", \"code\": \"x = 1\"}\n",
        )
        .unwrap();
        let against = plan.against.iter().map(|_| public.clone()).collect();
        let counts = write(&LeakPlan { against, ..plan.clone() }, &parts, &splits, &step)?;
        let read = |part: &String| {
            let pairs: Vec<PairRecord> = jsonl::read_all(&part_file(&step, part)).unwrap();
            pairs.into_iter().map(|pair| format!("{}/{}", pair.query, pair.code_id)).collect()
        };
        let kept = parts.parts.keys().map(|part| (part.clone(), read(part))).collect();
        Ok((kept, counts))
    }

    #[test]
    fn the_larger_part_loses_what_it_shares_with_others() {
        let plan = LeakPlan { near: Some(0.8), against: vec![PathBuf::new()], action: LeakAction::Remove };
        let (kept, counts) = run(&plan).unwrap();
        assert_eq!(kept["train"], ["close file/c-close(a):", "close file/c-sort(a):", "delete/c-delete(a):"]);
        assert_eq!((kept["dev"].len(), kept["test"].len()), (1, 2));
        let expected = [
            ("pairs of train shared with dev", 1),
            ("pairs of train shared with public.jsonl", 2),
            ("pairs of train shared with test", 1),
            ("pairs removed from dev", 0),
            ("pairs removed from test", 0),
            ("pairs removed from train", 5),
            ("queries removed from dev", 0),
            ("queries removed from test", 0),
            ("queries removed from train", 3),
        ];
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
        // Without a similarity, only equal texts count.
        let (kept, _) = run(&LeakPlan { near: None, ..plan }).unwrap();
        assert!(kept["train"].contains(&"read it/c-long(a):".to_owned()), "{kept:?}");
    }

    #[test]
    fn comments_do_not_hide_a_leak() {
        let code = |text: &str, language| Compared::code(text, language);
        let bare = "def add(a, b):\n    return a + b\n";
        let commented = "def add(a, b):\n    \"\"\"Add.\"\"\"\n    # Both of them.\n    return a+b  # sum\n";
        let mut known = Texts::new(None);
        known.add(&code(bare, Some("python")), 3);
        for language in [Some("python"), Some("a language"), None] {
            let found = known.find(&code(commented, language));
            assert_eq!(found, Some((3, "the same")), "{language:?}");
        }
        // What differs in a word is other code; a blank text is like no other.
        assert_eq!(known.find(&code(&bare.replace('+', "-"), None)), None);
        known.add(&code(" ", None), 4);
        assert_eq!(known.find(&code("\n", None)), None);
    }

    #[test]
    fn leaks_are_counted_or_refused() {
        let plan = LeakPlan { near: None, against: Vec::new(), action: LeakAction::Count };
        let (kept, counts) = run(&plan).unwrap();
        assert_eq!((kept["train"].len(), counts), (8, [("pairs of train shared with dev".into(), 1)].into()));
        let error = run(&LeakPlan { action: LeakAction::Refuse, ..plan }).unwrap_err().to_string();
        assert!(error.contains("found 1 pairs of train shared with dev"), "{error}");
        assert!(error.contains("\"order items\" of train: the same code that answers is in dev"), "{error}");
    }
}
