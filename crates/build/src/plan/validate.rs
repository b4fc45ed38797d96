//! Validates the entries of a plan, individually and in combination.

use quarry_corpus::dataset::split::WEIGHTS;
use quarry_corpus::formats::localize::is_repository;
use quarry_corpus::pairs::Extent;
use quarry_corpus::toml_file::At::{self, Item, Key};
use quarry_eval::method::Method;
use quarry_text::did_you_mean_or_all;

use super::{
    AnnotationPlan, CATEGORIES, CandidatePlan, CategoryPlan, EXPORT_FORMATS, ExportPlan, Extract, Given,
    InvalidEntry, LOCALIZE, LabelKind, LabelPlan, ONLY_MATCHES, Plan, QUERY_FILTERS, QueryKind, QueryPlan,
    RELEASED_PARTITION, SourceKind, SourcePlan, TRAINING_PAIRS, Units, UnpopularBelow, are_all_localize,
    invalid, keyword,
};
use crate::queries::{category, styles};
use crate::sources::{filter, license};

const MAX_CANDIDATES: usize = 1000;

fn ensure(condition: bool, at: impl Into<Vec<At>>, problem: impl Into<String>) -> Result<(), InvalidEntry> {
    if condition { Ok(()) } else { Err(invalid(at, problem)) }
}

/// Checks that a name is a known one, and otherwise suggests the closest.
fn known(at: impl Into<Vec<At>>, what: &str, name: &str, names: &[&str]) -> Result<(), InvalidEntry> {
    let hint = || did_you_mean_or_all(name, names.iter().copied());
    match names.contains(&name) {
        true => Ok(()),
        false => Err(invalid(at, format!("expected {what}, found {name:?}; {}", hint()))),
    }
}

/// The place of a key in an entry of a table of several.
fn entry(table: &'static str, number: usize, key: &'static str) -> [At; 3] {
    [Key(table), Item(number), Key(key)]
}

impl Plan {
    pub(super) fn validate(&self) -> Result<(), InvalidEntry> {
        for (table, n_entries, what) in [
            ("sources", self.sources.len(), "a source of code"),
            ("queries", self.queries.len(), "a source of queries"),
            ("labels", self.labels.len(), "a source of labels"),
            ("exports", self.exports.len(), "a format to write"),
        ] {
            let is_needless = table == "labels" && are_all_localize(&self.exports);
            let problem = format!("expected [[{table}]], {what}, found none; add one");
            ensure(n_entries > 0 || is_needless, Vec::<At>::new(), problem)?;
        }
        ensure(
            !self.title.contains(char::is_control),
            [Key("title")],
            "expected a title of one line without control characters; change it",
        )?;
        names("sources", self.sources.iter().map(|source| source.name.as_str()))?;
        for (number, source) in self.sources.iter().enumerate() {
            let at = |key| entry("sources", number, key);
            if let Some(license) = source.license.as_deref() {
                license::check_expression(license).map_err(|problem| {
                    let problem = format!(
                        "expected an SPDX expression such as MIT OR Apache-2.0 as `license`, found {license:?}: {problem}; \
                         leave it out to have it detected"
                    );
                    invalid(at("license"), problem)
                })?;
            }
            ensure(
                source.revision.is_none() || source.kind == SourceKind::Git,
                at("revision"),
                "`revision` is for `kind = \"git\"`; remove it, or change the kind",
            )?;
            if let Some(name) = &source.language {
                ensure(
                    source.kind == SourceKind::DataSet,
                    at("language"),
                    "`language` is for `kind = \"data-set\"`; other sources know theirs: remove it",
                )?;
                validate_language(at("language"), name)?;
            }
            validate_units(number, source)?;
        }
        names("queries", self.queries.iter().map(|query| query.name.as_str()))?;
        self.validate_pool()?;
        if let Some(author) = &self.author {
            author.validate().map_err(|problem| invalid([Key("author")], problem))?;
        }
        self.validate_categories()?;
        self.validate_annotation()?;
        self.validate_queries()?;
        self.validate_candidates()?;
        self.validate_labels()?;
        self.validate_exports()
    }

    fn validate_pool(&self) -> Result<(), InvalidEntry> {
        for (number, name) in self.pool.licenses.iter().enumerate() {
            let problem = format!("expected an SPDX identifier such as MIT, or permissive, found {name:?}");
            ensure(license::is_known(name), [Key("pool"), Key("licenses"), Item(number)], problem)?;
        }
        let filters: Vec<&str> = filter::filters().map(|(name, _)| name).collect();
        for (number, name) in self.pool.filters.iter().enumerate() {
            known([Key("pool"), Key("filters"), Item(number)], "a filter", name, &filters)?;
        }
        if let Some(similarity) = self.pool.near_duplicates {
            let at = [Key("pool"), Key("near_duplicates")];
            validate_similarity(at, "near_duplicates", similarity)?;
            let problem = "`keep_duplicates` keeps what `near_duplicates` removes; remove one of them";
            ensure(!self.pool.keep_duplicates, at, problem)?;
        }
        for (number, name) in self.pool.languages.iter().enumerate() {
            validate_language([Key("pool"), Key("languages"), Item(number)], name)?;
        }
        Ok(())
    }

    fn validate_categories(&self) -> Result<(), InvalidEntry> {
        let Some(CategoryPlan { examples, review, .. }) = &self.categories else { return Ok(()) };
        ensure(
            review.is_some() || self.author.is_some(),
            [Key("categories")],
            "[categories] needs [author], the model that decides the category of each comment, or `review`, the sheet that \
             people filled in; add one of them",
        )?;
        let at = [Key("categories"), Key("examples")];
        let problem = "`examples` are shown to a model, but `review` uses none; remove one of them";
        ensure(review.is_none() || *examples == 0, at, problem)?;
        let most = category::max_examples();
        ensure(*examples <= most, at, format!("expected 0 to {most} as `examples`, found {examples}"))
    }

    fn validate_annotation(&self) -> Result<(), InvalidEntry> {
        let AnnotationPlan { unpopular_below, calibration, documentation, .. } = &self.annotation;
        ensure(
            matches!(unpopular_below, UnpopularBelow::Calls(_)) || documentation.is_some(),
            [Key("annotation"), Key("unpopular_below")],
            "`calibrated` compares what the model knows with `documentation`, the directory that documents functions of \
             other packages; add it, or give a number",
        )?;
        let problem = "expected 1 or more as `calibration`, found 0";
        ensure(*calibration > 0, [Key("annotation"), Key("calibration")], problem)
    }

    fn validate_queries(&self) -> Result<(), InvalidEntry> {
        for (number, query) in self.queries.iter().enumerate() {
            let at = |key| entry("queries", number, key);
            let at_item = |key, item| [Key("queries"), Item(number), Key(key), Item(item)];
            for (kind, problem) in [
                (QueryKind::File, "`kind = \"file\"` needs `path`, the file of queries"),
                (QueryKind::Issues, "`kind = \"issues\"` needs `path`, the export of issues"),
            ] {
                ensure(query.kind != kind || query.path.is_some(), at("kind"), problem)?;
            }
            ensure(
                matches!(query.kind, QueryKind::File | QueryKind::Issues) || query.path.is_none(),
                at("path"),
                "`path` is for the kinds `file` and `issues`; other queries are made from the sources: remove it",
            )?;
            self.validate_histories(number, query)?;
            let is_written = query.kind == QueryKind::Written;
            let problem = "`kind = \"written\"` needs [author], the model that writes; add it";
            ensure(!is_written || self.author.is_some(), at("kind"), problem)?;
            let problem = "expected one style or more in `styles`, found none";
            ensure(!query.styles.is_empty(), at("styles"), problem)?;
            for (item, name) in query.styles.iter().enumerate() {
                known(at_item("styles", item), "a style", name, &styles::styles())?;
            }
            let problem = "`styles` is for `kind = \"written\"`; other queries are used unchanged: remove it";
            ensure(is_written || query.styles == keyword(), at("styles"), problem)?;
            let problem =
                "`given` is for `kind = \"written\"`; other queries are not written by a model: remove it";
            ensure(is_written || query.given == Given::default(), at("given"), problem)?;
            ensure(
                query.kind == QueryKind::Docstrings || query.extent == Extent::default(),
                at("extent"),
                "`extent` is for `kind = \"docstrings\"`; other queries are used unchanged: remove it",
            )?;
            for (item, name) in query.filters.iter().enumerate() {
                known(at_item("filters", item), "a filter of queries", name, &QUERY_FILTERS)?;
            }
            for (item, word) in query.containing.iter().enumerate() {
                let problem = "expected a word in `containing`, found an empty one, which every query contains; \
                    remove it";
                ensure(!word.trim().is_empty(), at_item("containing", item), problem)?;
            }
            let problem = "expected 1 or more as `maximum`, found 0";
            ensure(query.maximum != Some(0), at("maximum"), problem)?;
        }
        Ok(())
    }

    /// An export of issues with what fixed them has issues of named repositories, and no parts.
    fn validate_fixes(&self, number: usize) -> Result<(), InvalidEntry> {
        let joined: Vec<&str> = (self.queries.iter())
            .filter(|query| query.kind == QueryKind::Issues)
            .flat_map(|query| query.sources.iter().map(String::as_str))
            .collect();
        let problem = format!(
            "{LOCALIZE:?} has issues with the functions that commits changed for them, and needs [[queries]] of `kind = \
             \"issues\"` with `sources`; add them"
        );
        ensure(!joined.is_empty(), entry("exports", number, "format"), problem)?;
        for (item, source) in self.sources.iter().enumerate() {
            let name = source.repository.as_deref().unwrap_or_default();
            let problem = format!(
                "expected `repository` as OWNER/NAME, by which {LOCALIZE:?} names the clone of {:?}, found {name:?}; add it",
                source.name
            );
            let key = if name.is_empty() { "name" } else { "repository" };
            let is_joined = joined.contains(&source.name.as_str());
            ensure(!is_joined || is_repository(name), entry("sources", item, key), problem)?;
        }
        let problem = format!("{LOCALIZE:?} has all issues in one file; remove `parts`");
        ensure(self.exports[number].parts.is_empty(), entry("exports", number, "parts"), problem)
    }

    /// Sources whose history is read have one.
    fn validate_histories(&self, number: usize, query: &QueryPlan) -> Result<(), InvalidEntry> {
        let at = |key| entry("queries", number, key);
        ensure(
            query.kind != QueryKind::Commits || !query.sources.is_empty(),
            at("kind"),
            "`kind = \"commits\"` needs `sources`, the names of the sources whose commits are queries",
        )?;
        ensure(
            query.sources.is_empty() || query.is_untrusted(),
            at("sources"),
            "`sources` is for the kinds `commits` and `issues`, for which the history of sources is read; remove it",
        )?;
        let names: Vec<&str> = self.sources.iter().map(|source| source.name.as_str()).collect();
        for (item, name) in query.sources.iter().enumerate() {
            let at = [Key("queries"), Item(number), Key("sources"), Item(item)];
            known(at, "a source of [[sources]]", name, &names)?;
            let problem = format!("{name:?} occurs twice; name each source once");
            ensure(!query.sources[..item].contains(name), at, problem)?;
            let has_history = |source: &SourcePlan| {
                matches!(source.kind, SourceKind::Git | SourceKind::Directory)
                    && source.units == Units::Functions
            };
            let problem = format!(
                "expected a source with a history, of `kind = \"git\"` or a `directory` in a work tree, and with functions \
                 as units, found {name:?}, which has none; name another"
            );
            let named = |source: &&SourcePlan| source.name == *name;
            ensure(self.sources.iter().filter(named).all(has_history), at, problem)?;
        }
        Ok(())
    }

    fn validate_candidates(&self) -> Result<(), InvalidEntry> {
        let CandidatePlan { encoders, union, k, minimum, maximum_uses, as_released } = &self.candidates;
        let at = |key| [Key("candidates"), Key(key)];
        ensure(
            !encoders.is_empty() || !union.is_empty(),
            [Key("candidates")],
            "expected `encoders` or `union`, the methods that find candidates, found neither",
        )?;
        let problem = format!("expected 1 to {MAX_CANDIDATES} as `k`, found {k}");
        ensure((1..=MAX_CANDIDATES).contains(k), at("k"), problem)?;
        let is_cosine = minimum.is_none_or(|minimum| (-1.0..=1.0).contains(&minimum));
        ensure(is_cosine, at("minimum"), "expected a cosine from -1 to 1 as `minimum`")?;
        let problem = "expected 1 or more as `maximum_uses`, found 0";
        ensure(*maximum_uses != Some(0), at("maximum_uses"), problem)?;
        for (key, is_set) in [
            ("minimum", minimum.is_some()),
            ("maximum_uses", maximum_uses.is_some()),
            ("as_released", *as_released),
        ] {
            let problem = format!("`{key}` is about candidates of `encoders`, and there are none; remove it");
            ensure(!is_set || !encoders.is_empty(), at(key), problem)?;
        }
        ensure(
            !as_released || minimum.is_none(),
            at("minimum"),
            "with `as_released` scores are not cosines, so `minimum` has no meaning; remove one of them",
        )?;
        let problem =
            format!("`as_released` takes {RELEASED_PARTITION} codes or fewer of each query, found k = {k}");
        ensure(!as_released || *k <= RELEASED_PARTITION, at("k"), problem)?;
        for (key, methods) in [("encoders", encoders), ("union", union)] {
            for (number, name) in methods.iter().enumerate() {
                let at = [Key("candidates"), Key(key), Item(number)];
                let method: Method = name
                    .parse()
                    .map_err(|error: quarry_eval::method::MethodError| invalid(at, error.to_string()))?;
                let mut earlier =
                    encoders.iter().chain(union).take(number + usize::from(key == "union") * encoders.len());
                let problem = format!("{name:?} occurs twice; name each method once");
                ensure(!earlier.any(|other| other == name), at, problem)?;
                let embeds = matches!(method, Method::Static | Method::Model(_) | Method::Api(_));
                let problem = format!(
                    "expected a method with a model that embeds (static, the directory of a model, api:MODEL), found \
                     {name:?}; put others into `union`"
                );
                ensure(key != "encoders" || embeds, at, problem)?;
                let is_fixed = |leaf: &&Method| {
                    matches!(leaf, Method::Vectors { .. } | Method::Run(_) | Method::Chat(_))
                };
                let problem = format!(
                    "{name:?} is made for one corpus or for pairs, and the pool is made here; expected a method that ranks \
                     any code"
                );
                ensure(!method.leaves().iter().any(is_fixed), at, problem)?;
            }
        }
        Ok(())
    }

    fn validate_labels(&self) -> Result<(), InvalidEntry> {
        ensure(
            self.labels.is_empty()
                || self.labels.iter().any(|label| label.kind != LabelKind::Pairing)
                || self.queries.iter().any(QueryPlan::is_made_of_code),
            entry("labels", 0, "kind"),
            "`pairing` labels queries that were made from code, and all [[queries]] are of `kind = \"file\"`, or issues \
             without `sources`: no pair would have a label; add labels of another kind",
        )?;
        for (number, label) in self.labels.iter().enumerate() {
            let at = |key| entry("labels", number, key);
            let (has_path, wants_path) =
                (label.path.is_some(), matches!(label.kind, LabelKind::File | LabelKind::Judge));
            let problem = "this kind needs `path`, the file of labels or the judging plan";
            ensure(has_path || !wants_path, at("kind"), problem)?;
            let problem = "`path` is for the kinds `file` and `judge`; remove it";
            ensure(wants_path || !has_path, at("path"), problem)?;
            validate_people(number, label)?;
            let problem = "`generate` is for `kind = \"judge\"`, whose model writes the code; remove it";
            ensure(!label.generate || label.kind == LabelKind::Judge, at("generate"), problem)?;
            let is_last = number + 1 == self.labels.len();
            let problem = "`negative` labels all that is left; expected it as the last of [[labels]]";
            ensure(label.kind != LabelKind::Negative || is_last, at("kind"), problem)?;
        }
        Ok(())
    }

    fn validate_exports(&self) -> Result<(), InvalidEntry> {
        let problem = "expected `parts` with names and sizes, such as train = 8";
        ensure(!self.splits.parts.is_empty(), [Key("splits")], problem)?;
        for (name, size) in &self.splits.parts {
            let is_name =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            let problem = format!(
                "expected parts as NAME = SIZE, of letters, digits, - and _, with a size from {} to {}, found {name} = \
                 {size}",
                WEIGHTS.start(),
                WEIGHTS.end()
            );
            ensure(is_name && WEIGHTS.contains(size), [Key("splits"), Key("parts")], problem)?;
        }
        let parts: Vec<&str> = self.splits.parts.keys().map(String::as_str).collect();
        for (item, part) in self.splits.positives_only.iter().enumerate() {
            let at = [Key("splits"), Key("positives_only"), Item(item)];
            known(at, "a part of [splits]", part, &parts)?;
        }
        if let Some(similarity) = self.leaks.as_ref().and_then(|leaks| leaks.near) {
            validate_similarity([Key("leaks"), Key("near")], "near", similarity)?;
        }
        for (number, ExportPlan { format, parts: exported }) in self.exports.iter().enumerate() {
            let at = entry("exports", number, "format");
            let problem = format!("{format:?} is exported already; expected each format once");
            ensure(self.exports[..number].iter().all(|other| other.format != *format), at, problem)?;
            known(at, "a format", format, &EXPORT_FORMATS)?;
            let is_extract = Extract::named(format).is_some();
            let needs_positives =
                matches!(format.as_str(), TRAINING_PAIRS | CATEGORIES | ONLY_MATCHES) || is_extract;
            let problem = format!(
                "{format:?} has the pairs that answer, and by [[labels]] none does; add labels of another kind"
            );
            let has_positives = self.labels.iter().any(|label| label.kind != LabelKind::Negative);
            ensure(!needs_positives || has_positives, at, problem)?;
            let problem = format!("{format:?} has the category of each code, and needs [categories]; add it");
            ensure(format != CATEGORIES || self.categories.is_some(), at, problem)?;
            if format == LOCALIZE {
                self.validate_fixes(number)?;
            }
            let problem =
                format!("{format:?} needs [[queries]] of `kind = \"written\"` with summaries, found none");
            ensure(!is_extract || self.has_summaries(), at, problem)?;
            for (item, part) in exported.iter().enumerate() {
                let at = [Key("exports"), Item(number), Key("parts"), Item(item)];
                known(at, "a part of [splits]", part, &parts)?;
            }
        }
        Ok(())
    }
}

fn validate_similarity(at: [At; 2], key: &str, similarity: f64) -> Result<(), InvalidEntry> {
    let problem = format!("expected a similarity from 0.5 to 1 as `{key}`, found {similarity}");
    ensure((0.5..=1.0).contains(&similarity), at, problem)
}

/// Entries about people are for labels by people, and some of them can label.
fn validate_people(number: usize, label: &LabelPlan) -> Result<(), InvalidEntry> {
    let LabelPlan { kind, guideline, annotators, minimum, minimum_alpha, maximum_undecided, .. } = label;
    let at = |key| entry("labels", number, key);
    for (key, is_set) in [
        ("guideline", guideline.is_some()),
        ("annotators", !annotators.is_empty()),
        ("minimum", minimum.is_some()),
        ("minimum_alpha", minimum_alpha.is_some()),
        ("maximum_undecided", maximum_undecided.is_some()),
    ] {
        let problem = format!("`{key}` is for `kind = \"people\"`; remove it");
        ensure(!is_set || *kind == LabelKind::People, at(key), problem)?;
    }
    let most = if annotators.is_empty() { usize::MAX } else { annotators.len() };
    if let Some(minimum) = minimum {
        let problem = match annotators.len() {
            0 => format!("expected 1 or more people for each pair as `minimum`, found {minimum}"),
            named => {
                format!("expected 1 to {named} as `minimum`, the number of `annotators`, found {minimum}")
            }
        };
        ensure((1..=most).contains(minimum), at("minimum"), problem)?;
    }
    let is_alpha = minimum_alpha.is_none_or(|alpha| (-1.0..=1.0).contains(&alpha));
    ensure(is_alpha, at("minimum_alpha"), "expected -1 to 1 as `minimum_alpha`")?;
    let is_share = maximum_undecided.is_none_or(|share| (0.0..=1.0).contains(&share));
    ensure(is_share, at("maximum_undecided"), "expected 0 to 1 as `maximum_undecided`")
}

fn validate_language(at: [At; 3], name: &str) -> Result<(), InvalidEntry> {
    let problem = format!("expected a language, found {name:?}; `quarry languages` lists them");
    ensure(quarry_source::language_called(name).is_some(), at, problem)
}

/// Entries about the files of a source are not for sources without files.
fn validate_units(number: usize, source: &SourcePlan) -> Result<(), InvalidEntry> {
    for (key, is_set) in [
        ("units", source.units != Units::default()),
        ("as_released", source.as_released),
        ("library_lines", !source.library_lines),
        ("blank_lines", !source.blank_lines),
        ("projects", source.projects.is_some()),
    ] {
        if !is_set {
            continue;
        }
        let at = entry("sources", number, key);
        let problem = format!(
            "`{key}` is for the kinds `directory`, `git` and `archive`, whose files are read; remove it"
        );
        ensure(source.kind != SourceKind::DataSet, at, problem)?;
        let problem = format!("`{key}` is for `units = \"comments\"`; add this, or remove it");
        ensure(["units", "projects"].contains(&key) || source.units == Units::Comments, at, problem)?;
        let problem = "`as_released` leaves these lines out anyway; remove one of the two";
        ensure(!["library_lines", "blank_lines"].contains(&key) || !source.as_released, at, problem)?;
    }
    Ok(())
}

fn names<'a>(table: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), InvalidEntry> {
    let mut seen: Vec<&str> = Vec::new();
    for (number, name) in names.enumerate() {
        let at = entry(table, number, "name");
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let problem = format!("expected a name of letters, digits, `-`, `_` and `.`, found {name:?}");
        ensure(!name.is_empty() && name.chars().all(fits), at, problem)?;
        let problem = format!("{name:?} occurs twice; expected a different name for each");
        ensure(!seen.contains(&name), at, problem)?;
        seen.push(name);
    }
    Ok(())
}
