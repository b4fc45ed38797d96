//! Detects leaks between the parts of a data set, and from other data sets such as public test sets: equal texts and
//! near-duplicates, as [`quarry_corpus::dataset::compared`] compares them.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;
use std::slice;

use quarry_corpus::dataset;
use quarry_corpus::dataset::compared::{ComparedCode, ComparedQuery, Likeness, TextSet};
use quarry_corpus::formats::Record;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::jsonl::{self, Writer};
use crate::outputs::{PARTS, part_file};
use crate::plan::{LeakAction, LeakPlan, SplitPlan};
use crate::record::PairRecord;
use crate::step::{Key, Step, content_hash};

/// Incremented when the same parts lead to other output.
const VERSION: u32 = 3;

pub(crate) const STEP: &str = "leaks";
/// Leaking pairs, with what they share and with which part or data set.
const LEAKS: &str = "leaks.jsonl";

#[derive(Serialize)]
struct Identity<'p> {
    plan: &'p LeakPlan,
    /// Hashes of the other data sets.
    contents: Vec<String>,
    parts: &'p SplitPlan,
}

pub(crate) fn step(plan: &LeakPlan, parts: &SplitPlan, splits: &Key) -> Result<Step, BuildError> {
    let contents = plan.against.iter().map(|path| content_hash(path)).collect::<Result<_, _>>()?;
    Ok(Step::new(STEP, VERSION, &Identity { plan, contents, parts }, &[splits]))
}

pub(crate) fn check(plan: &LeakPlan) -> Result<(), BuildError> {
    plan.against.iter().try_for_each(|path| {
        dataset::sources(slice::from_ref(path), "", "test")?;
        Ok(())
    })
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
    query: ComparedQuery,
    code: ComparedCode,
}

impl Pair {
    fn new(pair: PairRecord) -> Self {
        let query = ComparedQuery::new(&pair.query);
        let code = ComparedCode::new(&pair.code, Some(&pair.language));
        Self { pair, query, code }
    }
}

/// Texts that parts must not contain: those of other data sets, and the queries of parts with the codes that answer them.
struct Known {
    near: Option<f64>,
    sets: Vec<KnownSet>,
}

struct KnownSet {
    name: String,
    texts: TextSet,
    is_part: bool,
}

impl Known {
    fn new(plan: &LeakPlan) -> Result<Self, BuildError> {
        let mut known = Self { near: plan.near, sets: Vec::new() };
        for path in &plan.against {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let texts = known.add(&name, false);
            let sources = dataset::sources(slice::from_ref(path), "", "test")?;
            dataset::for_each(&sources, &mut |_, record| {
                match record {
                    Record::Pair(pair) => {
                        texts.add_query(&ComparedQuery::new(&pair.query.text));
                        texts.add_code(&ComparedCode::new(&pair.code.text, pair.language.as_deref()));
                    }
                    Record::Query(query) => _ = texts.add_query(&ComparedQuery::new(&query.text)),
                    Record::Document(document) => {
                        let language = document.language_name();
                        texts.add_code(&ComparedCode::new(&document.full_text(), language.as_deref()));
                    }
                    Record::Judgment(_) | Record::Label(_) | Record::Retrieved(_) => {}
                }
                Ok(())
            })?;
        }
        Ok(known)
    }

    fn add(&mut self, name: &str, is_part: bool) -> &mut TextSet {
        let texts = TextSet::new(self.near, true);
        self.sets.push(KnownSet { name: name.to_owned(), texts, is_part });
        let last = self.sets.len() - 1;
        &mut self.sets[last].texts
    }

    /// The first overlap of a pair with another part or data set, its name, and whether the query is shared.
    fn find(&self, Pair { pair, query, code }: &Pair) -> Option<(String, &str, bool)> {
        let in_sets = |what, find: &dyn Fn(&KnownSet) -> Option<Likeness>| {
            self.sets.iter().find_map(|set| Some((what, find(set)?, set.name.as_str())))
        };
        let found = in_sets("query", &|set| set.texts.find_query(query))
            .or_else(|| in_sets("code", &|set| set.texts.find_code(code).filter(|_| !set.is_part)))
            .or_else(|| {
                let answers = |set: &KnownSet| set.is_part && pair.is_positive();
                in_sets("code that answers", &|set| set.texts.find_code(code).filter(|_| answers(set)))
            });
        let (what, likeness, name) = found?;
        let how = match likeness {
            Likeness::Same => "the same",
            Likeness::Near => "nearly the same",
        };
        Some((format!("{how} {what} is in {name}"), name, what == "query"))
    }

    /// Adds a part, whose texts the following ones must not contain.
    fn add_part(&mut self, name: &str, pairs: &[Pair]) {
        let texts = self.add(name, true);
        for Pair { pair, query, code } in pairs {
            texts.add_query(query);
            if pair.is_positive() {
                texts.add_code(code);
            }
        }
    }
}

/// Writes the parts without leaks. A query is removed with all its pairs if another data set or a smaller part has it
/// too, or if one of its answers is in another data set or answers a query of a smaller part; any other pair with a
/// code of another data set is removed as well. Depending on the plan, leaks are only counted, or are an error.
pub(crate) fn write(
    plan: &LeakPlan,
    parts: &SplitPlan,
    splits: &Path,
    step: &Path,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let mut known = Known::new(plan)?;
    let directory = step.join(PARTS);
    fs::create_dir_all(&directory).map_err(BuildError::write(&directory))?;
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
            return Err(BuildError::step(STEP, problem));
        }
        if plan.action == LeakAction::Remove {
            counts.insert(format!("queries removed from {part}"), lost_queries.len() as u64);
            counts.insert(format!("pairs removed from {part}"), lost.len() as u64);
        }
        let queries: HashSet<&str> = kept.iter().map(|Pair { pair, .. }| pair.query_id.as_str()).collect();
        counts.insert(format!("queries in {part}"), queries.len() as u64);
        counts.insert(format!("pairs in {part}"), kept.len() as u64);
        let mut writer = Writer::create(&part_file(step, part))?;
        kept.iter().try_for_each(|Pair { pair, .. }| writer.write(pair))?;
        writer.finish()?;
        known.add_part(part, &kept);
    }
    leaks.finish()?;
    if let (LeakAction::Refuse, Some(leak)) = (plan.action, &first) {
        let shared = counts.iter().filter(|(what, _)| what.contains(" shared with "));
        let found: Vec<String> = shared.map(|(what, count)| format!("{count} {what}")).collect();
        let problem = format!(
            "expected parts that share nothing, found {}; the first is {:?} of {}: {}; remove them by action = \"remove\"",
            found.join(", "),
            leak.query,
            leak.part,
            leak.why
        );
        return Err(BuildError::step(STEP, problem));
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
    fn run(plan: &LeakPlan) -> Result<(Removed, Counts), BuildError> {
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
        let kept_counts = [
            ("pairs in dev", 1),
            ("pairs in test", 2),
            ("pairs in train", 3),
            ("queries in dev", 1),
            ("queries in test", 1),
            ("queries in train", 2),
        ];
        let expected = expected.into_iter().chain(kept_counts);
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).collect());
        // Without a similarity, only equal texts count.
        let (kept, _) = run(&LeakPlan { near: None, ..plan }).unwrap();
        assert!(kept["train"].contains(&"read it/c-long(a):".to_owned()), "{kept:?}");
    }

    #[test]
    fn comments_do_not_hide_a_leak() {
        let bare = "def add(a, b):\n    return a + b\n";
        let commented = "def add(a, b):\n    \"\"\"Add.\"\"\"\n    # Both of them.\n    return a+b  # sum\n";
        let mut known = TextSet::new(None, true);
        known.add_code(&ComparedCode::new(bare, Some("python")));
        for language in [Some("python"), Some("a language"), None] {
            assert_eq!(
                known.find_code(&ComparedCode::new(commented, language)),
                Some(Likeness::Same),
                "{language:?}"
            );
        }
        // One different word makes it different code; a blank text matches nothing.
        assert_eq!(known.find_code(&ComparedCode::new(&bare.replace('+', "-"), None)), None);
        known.add_code(&ComparedCode::new(" ", None));
        assert_eq!(known.find_code(&ComparedCode::new("\n", None)), None);
    }

    #[test]
    fn leaks_are_counted_or_refused() {
        let plan = LeakPlan { near: None, against: Vec::new(), action: LeakAction::Count };
        let (kept, counts) = run(&plan).unwrap();
        let shared: Vec<_> = counts.iter().filter(|(name, _)| name.contains("shared")).collect();
        assert_eq!(shared, [(&"pairs of train shared with dev".to_owned(), &1)]);
        assert_eq!((kept["train"].len(), counts["pairs in train"]), (8, 8));
        let error = run(&LeakPlan { action: LeakAction::Refuse, ..plan }).unwrap_err().to_string();
        assert!(error.contains("found 1 pairs of train shared with dev"), "{error}");
        assert!(error.contains("\"order items\" of train: the same code that answers is in dev"), "{error}");
    }
}
