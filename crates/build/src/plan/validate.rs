//! Validates the entries of a plan, individually and in combination.

use quarry_corpus::dataset::split::WEIGHTS;
use quarry_corpus::formats::localize::is_repository;
use quarry_corpus::pairs::Extent;
use quarry_corpus::toml_file::At;
use quarry_eval::method::Method;
use quarry_text::did_you_mean_or_all;

use super::{
    AnnotationPlan, CATEGORIES, CandidatePlan, CategoryPlan, EXPORT_FORMATS, Extract, Given, InvalidEntry,
    LOCALIZE, LabelKind, LabelPlan, ONLY_MATCHES, PlanFile, QUERY_FILTERS, QueryKind, QueryPlan,
    RELEASED_PARTITION, SourceKind, SourcePlan, TRAINING_PAIRS, Units, UnpopularBelow, are_all_localize,
    invalid, keyword,
};
use crate::queries::{category, styles};
use crate::sources::{filter, license};

const MAX_CANDIDATES: usize = 1000;

/// Checks that a name is a known one, and otherwise suggests the closest.
fn known(at: Vec<At>, what: &str, name: &str, names: &[&str]) -> Result<(), InvalidEntry> {
    if names.contains(&name) {
        return Ok(());
    }
    let hint = did_you_mean_or_all(name, names.iter().copied());
    Err(InvalidEntry { at, problem: format!("expected {what}, found {name:?}; {hint}") })
}

impl PlanFile {
    pub(super) fn validate(&self) -> Result<(), InvalidEntry> {
        for (table, n_entries, what) in [
            ("sources", self.sources.len(), "a source of code"),
            ("queries", self.queries.len(), "a source of queries"),
            ("labels", self.labels.len(), "a source of labels"),
            ("exports", self.exports.len(), "a format to write"),
        ] {
            let is_needless = table == "labels" && are_all_localize(&self.exports);
            if n_entries == 0 && !is_needless {
                return Err(invalid([], format!("expected [[{table}]], {what}, found none; add one")));
            }
        }
        if self.title.contains(char::is_control) {
            let problem = "expected a title of one line without control characters; change it";
            return Err(invalid([At::Key("title")], problem));
        }
        let sources = self.sources.iter().map(|source| source.name.as_str());
        names("sources", sources)?;
        for (number, source) in self.sources.iter().enumerate() {
            if let Some(Err(problem)) = source.license.as_deref().map(license::check_expression) {
                let problem = format!(
                    "expected an SPDX expression such as MIT OR Apache-2.0 as `license`, found {:?}: {problem}; leave it \
                     out to have it detected",
                    source.license.as_deref().unwrap_or_default()
                );
                return Err(invalid([At::Key("sources"), At::Item(number), At::Key("license")], problem));
            }
            if source.revision.is_some() && source.kind != SourceKind::Git {
                let problem = "`revision` is for `kind = \"git\"`; remove it, or change the kind";
                return Err(invalid([At::Key("sources"), At::Item(number), At::Key("revision")], problem));
            }
            if let Some(name) = &source.language {
                let at = [At::Key("sources"), At::Item(number), At::Key("language")];
                if source.kind != SourceKind::DataSet {
                    let problem =
                        "`language` is for `kind = \"data-set\"`; other sources know theirs: remove it";
                    return Err(invalid(at, problem));
                }
                validate_language(at, name)?;
            }
            validate_units(number, source)?;
        }
        names("queries", self.queries.iter().map(|query| query.name.as_str()))?;
        self.validate_pool()?;
        if let Some(author) = &self.author {
            author.validate().map_err(|problem| invalid([At::Key("author")], problem))?;
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
            if !license::is_known(name) {
                let at = [At::Key("pool"), At::Key("licenses"), At::Item(number)];
                let problem =
                    format!("expected an SPDX identifier such as MIT, or permissive, found {name:?}");
                return Err(invalid(at, problem));
            }
        }
        let filters: Vec<&str> = filter::filters().map(|(name, _)| name).collect();
        for (number, name) in self.pool.filters.iter().enumerate() {
            known(vec![At::Key("pool"), At::Key("filters"), At::Item(number)], "a filter", name, &filters)?;
        }
        if let Some(similarity) = self.pool.near_duplicates
            && !(0.5..=1.0).contains(&similarity)
        {
            let problem =
                format!("expected a similarity from 0.5 to 1 as `near_duplicates`, found {similarity}");
            return Err(invalid([At::Key("pool"), At::Key("near_duplicates")], problem));
        }
        if self.pool.near_duplicates.is_some() && self.pool.keep_duplicates {
            let problem = "`keep_duplicates` keeps what `near_duplicates` removes; remove one of them";
            return Err(invalid([At::Key("pool"), At::Key("near_duplicates")], problem));
        }
        for (number, name) in self.pool.languages.iter().enumerate() {
            validate_language([At::Key("pool"), At::Key("languages"), At::Item(number)], name)?;
        }
        Ok(())
    }

    fn validate_categories(&self) -> Result<(), InvalidEntry> {
        let Some(CategoryPlan { examples, review, .. }) = &self.categories else { return Ok(()) };
        let at = |key| [At::Key("categories"), At::Key(key)];
        if review.is_none() && self.author.is_none() {
            let problem = "[categories] needs [author], the model that decides the category of each comment, or `review`, the \
                           sheet that people filled in; add one of them";
            return Err(invalid([At::Key("categories")], problem));
        }
        if review.is_some() && *examples > 0 {
            let problem = "`examples` are shown to a model, but `review` uses none; remove one of them";
            return Err(invalid(at("examples"), problem));
        }
        if *examples > category::max_examples() {
            let problem =
                format!("expected 0 to {} as `examples`, found {examples}", category::max_examples());
            return Err(invalid(at("examples"), problem));
        }
        Ok(())
    }

    fn validate_annotation(&self) -> Result<(), InvalidEntry> {
        let AnnotationPlan { unpopular_below, calibration, documentation, .. } = &self.annotation;
        let at = |key| [At::Key("annotation"), At::Key(key)];
        if matches!(unpopular_below, UnpopularBelow::Named(_)) && documentation.is_none() {
            let problem = "`calibrated` compares what the model knows with `documentation`, the directory that \
                           documents functions of other packages; add it, or give a number";
            return Err(invalid(at("unpopular_below"), problem));
        }
        if *calibration == 0 {
            return Err(invalid(at("calibration"), "expected 1 or more as `calibration`, found 0"));
        }
        Ok(())
    }

    fn validate_queries(&self) -> Result<(), InvalidEntry> {
        for (number, query) in self.queries.iter().enumerate() {
            let at = |key| vec![At::Key("queries"), At::Item(number), At::Key(key)];
            match (query.kind, &query.path) {
                (QueryKind::File, None) => {
                    return Err(InvalidEntry {
                        at: at("kind"),
                        problem: "`kind = \"file\"` needs `path`, the file of queries".into(),
                    });
                }
                (QueryKind::Issues, None) => {
                    return Err(InvalidEntry {
                        at: at("kind"),
                        problem: "`kind = \"issues\"` needs `path`, the export of issues".into(),
                    });
                }
                (QueryKind::Docstrings | QueryKind::Written | QueryKind::Commits, Some(_)) => {
                    let problem =
                        "`path` is for the kinds `file` and `issues`; other queries are made from the \
                                   sources: remove it"
                            .into();
                    return Err(InvalidEntry { at: at("path"), problem });
                }
                _ => {}
            }
            self.validate_histories(number, query)?;
            if query.kind == QueryKind::Written && self.author.is_none() {
                let problem = "`kind = \"written\"` needs [author], the model that writes; add it".into();
                return Err(InvalidEntry { at: at("kind"), problem });
            }
            if query.styles.is_empty() {
                let problem = "expected one style or more in `styles`, found none".into();
                return Err(InvalidEntry { at: at("styles"), problem });
            }
            for (item, name) in query.styles.iter().enumerate() {
                known([at("styles"), vec![At::Item(item)]].concat(), "a style", name, &styles::styles())?;
            }
            if query.kind != QueryKind::Written && query.styles != keyword() {
                let problem =
                    "`styles` is for `kind = \"written\"`; other queries are used unchanged: remove it";
                return Err(InvalidEntry { at: at("styles"), problem: problem.into() });
            }
            if query.kind != QueryKind::Written && query.given != Given::default() {
                let problem = "`given` is for `kind = \"written\"`; other queries are not written by a model: remove it";
                return Err(InvalidEntry { at: at("given"), problem: problem.into() });
            }
            if query.kind != QueryKind::Docstrings && query.extent != Extent::default() {
                let problem =
                    "`extent` is for `kind = \"docstrings\"`; other queries are used unchanged: remove it";
                return Err(InvalidEntry { at: at("extent"), problem: problem.into() });
            }
            for (item, name) in query.filters.iter().enumerate() {
                let at = [at("filters"), vec![At::Item(item)]].concat();
                known(at, "a filter of queries", name, &QUERY_FILTERS)?;
            }
            if let Some(item) = query.containing.iter().position(|word| word.trim().is_empty()) {
                let problem = "expected a word in `containing`, found an empty one, which every query contains; \
                    remove it";
                return Err(InvalidEntry {
                    at: [at("containing"), vec![At::Item(item)]].concat(),
                    problem: problem.into(),
                });
            }
            if query.maximum == Some(0) {
                return Err(InvalidEntry {
                    at: at("maximum"),
                    problem: "expected 1 or more as `maximum`, found 0".into(),
                });
            }
        }
        Ok(())
    }

    /// An export of issues with what fixed them has issues of named repositories, and no parts.
    fn validate_fixes(&self, number: usize) -> Result<(), InvalidEntry> {
        let at = |key| vec![At::Key("exports"), At::Item(number), At::Key(key)];
        let joined: Vec<&str> = (self.queries.iter())
            .filter(|query| query.kind == QueryKind::Issues)
            .flat_map(|query| query.sources.iter().map(String::as_str))
            .collect();
        if joined.is_empty() {
            let problem = format!(
                "{LOCALIZE:?} has issues with the functions that commits changed for them, and needs [[queries]] of `kind = \
                 \"issues\"` with `sources`; add them"
            );
            return Err(InvalidEntry { at: at("format"), problem });
        }
        for (item, source) in self.sources.iter().enumerate() {
            let name = source.repository.as_deref().unwrap_or_default();
            if joined.contains(&source.name.as_str()) && !is_repository(name) {
                let problem = format!(
                    "expected `repository` as OWNER/NAME, by which {LOCALIZE:?} names the clone of {:?}, found {name:?}; add it",
                    source.name
                );
                let key = if name.is_empty() { "name" } else { "repository" };
                return Err(InvalidEntry {
                    at: vec![At::Key("sources"), At::Item(item), At::Key(key)],
                    problem,
                });
            }
        }
        if !self.exports[number].parts.is_empty() {
            let problem = format!("{LOCALIZE:?} has all issues in one file; remove `parts`");
            return Err(InvalidEntry { at: at("parts"), problem });
        }
        Ok(())
    }

    /// Sources whose history is read have one.
    fn validate_histories(&self, number: usize, query: &QueryPlan) -> Result<(), InvalidEntry> {
        let at = |key| vec![At::Key("queries"), At::Item(number), At::Key(key)];
        if query.kind == QueryKind::Commits && query.sources.is_empty() {
            let problem =
                "`kind = \"commits\"` needs `sources`, the names of the sources whose commits are queries"
                    .into();
            return Err(InvalidEntry { at: at("kind"), problem });
        }
        if !query.sources.is_empty() && !query.is_untrusted() {
            let problem = "`sources` is for the kinds `commits` and `issues`, for which the history of sources is read; \
                           remove it"
                .into();
            return Err(InvalidEntry { at: at("sources"), problem });
        }
        let names: Vec<&str> = self.sources.iter().map(|source| source.name.as_str()).collect();
        for (item, name) in query.sources.iter().enumerate() {
            let at = [at("sources"), vec![At::Item(item)]].concat();
            known(at.clone(), "a source of [[sources]]", name, &names)?;
            if query.sources[..item].contains(name) {
                return Err(InvalidEntry {
                    at,
                    problem: format!("{name:?} occurs twice; name each source once"),
                });
            }
            let has_history = |source: &SourcePlan| {
                matches!(source.kind, SourceKind::Git | SourceKind::Directory)
                    && source.units == Units::Functions
            };
            if self.sources.iter().any(|source| source.name == *name && !has_history(source)) {
                let problem = format!(
                    "expected a source with a history, of `kind = \"git\"` or a `directory` in a work tree, and with \
                     functions as units, found {name:?}, which has none; name another"
                );
                return Err(InvalidEntry { at, problem });
            }
        }
        Ok(())
    }

    fn validate_candidates(&self) -> Result<(), InvalidEntry> {
        let CandidatePlan { encoders, union, k, minimum, maximum_uses, as_released } = &self.candidates;
        if encoders.is_empty() && union.is_empty() {
            let problem = "expected `encoders` or `union`, the methods that find candidates, found neither";
            return Err(invalid([At::Key("candidates")], problem));
        }
        if *k == 0 || *k > MAX_CANDIDATES {
            let problem = format!("expected 1 to {MAX_CANDIDATES} as `k`, found {k}");
            return Err(invalid([At::Key("candidates"), At::Key("k")], problem));
        }
        if minimum.is_some_and(|minimum| !(-1.0..=1.0).contains(&minimum)) {
            let problem = "expected a cosine from -1 to 1 as `minimum`";
            return Err(invalid([At::Key("candidates"), At::Key("minimum")], problem));
        }
        if *maximum_uses == Some(0) {
            let problem = "expected 1 or more as `maximum_uses`, found 0";
            return Err(invalid([At::Key("candidates"), At::Key("maximum_uses")], problem));
        }
        for (key, is_set) in [
            ("minimum", minimum.is_some()),
            ("maximum_uses", maximum_uses.is_some()),
            ("as_released", *as_released),
        ] {
            if is_set && encoders.is_empty() {
                let problem =
                    format!("`{key}` is about candidates of `encoders`, and there are none; remove it");
                return Err(invalid([At::Key("candidates"), At::Key(key)], problem));
            }
        }
        if *as_released && minimum.is_some() {
            let problem =
                "with `as_released` scores are not cosines, so `minimum` has no meaning; remove one of them";
            return Err(invalid([At::Key("candidates"), At::Key("minimum")], problem));
        }
        if *as_released && *k > RELEASED_PARTITION {
            let problem = format!(
                "`as_released` takes {RELEASED_PARTITION} codes or fewer of each query, found k = {k}"
            );
            return Err(invalid([At::Key("candidates"), At::Key("k")], problem));
        }
        for (key, methods) in [("encoders", encoders), ("union", union)] {
            for (number, name) in methods.iter().enumerate() {
                let invalid = |problem: String| {
                    invalid([At::Key("candidates"), At::Key(key), At::Item(number)], problem)
                };
                let method: Method = name
                    .parse()
                    .map_err(|error: quarry_eval::method::MethodError| invalid(error.to_string()))?;
                let mut earlier =
                    encoders.iter().chain(union).take(number + usize::from(key == "union") * encoders.len());
                if earlier.any(|other| other == name) {
                    return Err(invalid(format!("{name:?} occurs twice; name each method once")));
                }
                let embeds = matches!(method, Method::Static | Method::Model(_) | Method::Api(_));
                if key == "encoders" && !embeds {
                    let problem = format!(
                        "expected a method with a model that embeds (static, the directory of a model, api:MODEL), found \
                         {name:?}; put others into `union`"
                    );
                    return Err(invalid(problem));
                }
                let is_fixed = |leaf: &&Method| {
                    matches!(leaf, Method::Vectors { .. } | Method::Run(_) | Method::Chat(_))
                };
                if method.leaves().iter().any(is_fixed) {
                    let problem = format!(
                        "{name:?} is made for one corpus or for pairs, and the pool is made here; expected a method that \
                         ranks any code"
                    );
                    return Err(invalid(problem));
                }
            }
        }
        Ok(())
    }

    fn validate_labels(&self) -> Result<(), InvalidEntry> {
        if !self.labels.is_empty()
            && self.labels.iter().all(|label| label.kind == LabelKind::Pairing)
            && !self.queries.iter().any(QueryPlan::is_made_of_code)
        {
            let problem = "`pairing` labels queries that were made from code, and all [[queries]] are of `kind = \
                           \"file\"`, or issues without `sources`: no pair would have a label; add labels of another \
                           kind";
            return Err(invalid([At::Key("labels"), At::Item(0), At::Key("kind")], problem));
        }
        for (number, label) in self.labels.iter().enumerate() {
            let at = |key| [At::Key("labels"), At::Item(number), At::Key(key)];
            let wants_path = matches!(label.kind, LabelKind::File | LabelKind::Judge);
            match (&label.path, wants_path) {
                (None, true) => {
                    return Err(invalid(
                        at("kind"),
                        "this kind needs `path`, the file of labels or the judging plan",
                    ));
                }
                (Some(_), false) => {
                    return Err(invalid(at("path"), "`path` is for the kinds `file` and `judge`; remove it"));
                }
                _ => {}
            }
            validate_people(number, label)?;
            if label.generate && label.kind != LabelKind::Judge {
                let problem = "`generate` is for `kind = \"judge\"`, whose model writes the code; remove it";
                return Err(invalid(at("generate"), problem));
            }
            if label.kind == LabelKind::Negative && number + 1 < self.labels.len() {
                let problem = "`negative` labels all that is left; expected it as the last of [[labels]]";
                return Err(invalid(at("kind"), problem));
            }
        }
        Ok(())
    }

    fn validate_exports(&self) -> Result<(), InvalidEntry> {
        if self.splits.parts.is_empty() {
            return Err(invalid(
                [At::Key("splits")],
                "expected `parts` with names and sizes, such as train = 8",
            ));
        }
        for (name, size) in &self.splits.parts {
            let is_name =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            if !is_name || !WEIGHTS.contains(size) {
                let problem = format!(
                    "expected parts as NAME = SIZE, of letters, digits, - and _, with a size from {} to {}, found \
                     {name} = {size}",
                    WEIGHTS.start(),
                    WEIGHTS.end()
                );
                return Err(invalid([At::Key("splits"), At::Key("parts")], problem));
            }
        }
        let parts: Vec<&str> = self.splits.parts.keys().map(String::as_str).collect();
        for (item, part) in self.splits.positives_only.iter().enumerate() {
            let at = vec![At::Key("splits"), At::Key("positives_only"), At::Item(item)];
            known(at, "a part of [splits]", part, &parts)?;
        }
        if let Some(similarity) = self.leaks.as_ref().and_then(|leaks| leaks.near)
            && !(0.5..=1.0).contains(&similarity)
        {
            let problem = format!("expected a similarity from 0.5 to 1 as `near`, found {similarity}");
            return Err(invalid([At::Key("leaks"), At::Key("near")], problem));
        }
        for (number, export) in self.exports.iter().enumerate() {
            let at = |key| vec![At::Key("exports"), At::Item(number), At::Key(key)];
            if self.exports[..number].iter().any(|other| other.format == export.format) {
                let problem = format!("{:?} is exported already; expected each format once", export.format);
                return Err(InvalidEntry { at: at("format"), problem });
            }
            known(at("format"), "a format", &export.format, &EXPORT_FORMATS)?;
            let needs_positives =
                matches!(export.format.as_str(), TRAINING_PAIRS | CATEGORIES | ONLY_MATCHES)
                    || Extract::named(&export.format).is_some();
            if needs_positives && self.labels.iter().all(|label| label.kind == LabelKind::Negative) {
                let problem = format!(
                    "{:?} has the pairs that answer, and by [[labels]] none does; add labels of another kind",
                    export.format
                );
                return Err(InvalidEntry { at: at("format"), problem });
            }
            if export.format == CATEGORIES && self.categories.is_none() {
                let problem = format!(
                    "{:?} has the category of each code, and needs [categories]; add it",
                    export.format
                );
                return Err(InvalidEntry { at: at("format"), problem });
            }
            if export.format == LOCALIZE {
                self.validate_fixes(number)?;
            }
            let is_extract = Extract::named(&export.format).is_some();
            let has_summary =
                |query: &QueryPlan| query.kind == QueryKind::Written && query.given == Given::Summary;
            if is_extract && !self.queries.iter().any(has_summary) {
                let problem = format!(
                    "{:?} needs [[queries]] of `kind = \"written\"` with summaries, found none",
                    export.format
                );
                return Err(InvalidEntry { at: at("format"), problem });
            }
            for (item, part) in export.parts.iter().enumerate() {
                let parts: Vec<&str> = self.splits.parts.keys().map(String::as_str).collect();
                known([at("parts"), vec![At::Item(item)]].concat(), "a part of [splits]", part, &parts)?;
            }
        }
        Ok(())
    }
}

/// Entries about people are for labels by people, and some of them can label.
fn validate_people(number: usize, label: &LabelPlan) -> Result<(), InvalidEntry> {
    let LabelPlan { kind, guideline, annotators, minimum, minimum_alpha, maximum_undecided, .. } = label;
    let at = |key| [At::Key("labels"), At::Item(number), At::Key(key)];
    for (key, is_set) in [
        ("guideline", guideline.is_some()),
        ("annotators", !annotators.is_empty()),
        ("minimum", minimum.is_some()),
        ("minimum_alpha", minimum_alpha.is_some()),
        ("maximum_undecided", maximum_undecided.is_some()),
    ] {
        if is_set && *kind != LabelKind::People {
            let problem = format!("`{key}` is for `kind = \"people\"`; remove it");
            return Err(invalid(at(key), problem));
        }
    }
    let most = if annotators.is_empty() { usize::MAX } else { annotators.len() };
    if let Some(minimum) = minimum.filter(|minimum| !(1..=most).contains(minimum)) {
        let problem = match annotators.len() {
            0 => format!("expected 1 or more people for each pair as `minimum`, found {minimum}"),
            named => {
                format!("expected 1 to {named} as `minimum`, the number of `annotators`, found {minimum}")
            }
        };
        return Err(invalid(at("minimum"), problem));
    }
    if minimum_alpha.is_some_and(|alpha| !(-1.0..=1.0).contains(&alpha)) {
        return Err(invalid(at("minimum_alpha"), "expected -1 to 1 as `minimum_alpha`"));
    }
    if maximum_undecided.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        return Err(invalid(at("maximum_undecided"), "expected 0 to 1 as `maximum_undecided`"));
    }
    Ok(())
}

fn validate_language(at: [At; 3], name: &str) -> Result<(), InvalidEntry> {
    let problem = || format!("expected a language, found {name:?}; `quarry languages` lists them");
    if quarry_source::language_called(name).is_some() { Ok(()) } else { Err(invalid(at, problem())) }
}

/// Entries about the files of a source are not for sources without files.
fn validate_units(number: usize, source: &SourcePlan) -> Result<(), InvalidEntry> {
    let has_files = source.kind != SourceKind::DataSet;
    for (key, is_set) in [
        ("units", source.units != Units::default()),
        ("as_released", source.as_released),
        ("library_lines", !source.library_lines),
        ("blank_lines", !source.blank_lines),
        ("projects", source.projects.is_some()),
    ] {
        let at = [At::Key("sources"), At::Item(number), At::Key(key)];
        if is_set && !has_files {
            let problem = format!(
                "`{key}` is for the kinds `directory`, `git` and `archive`, whose files are read; remove it"
            );
            return Err(invalid(at, problem));
        }
        if ["as_released", "library_lines", "blank_lines"].contains(&key)
            && is_set
            && source.units != Units::Comments
        {
            let problem = format!("`{key}` is for `units = \"comments\"`; add this, or remove it");
            return Err(invalid(at, problem));
        }
        if ["library_lines", "blank_lines"].contains(&key) && is_set && source.as_released {
            let problem = "`as_released` leaves these lines out anyway; remove one of the two";
            return Err(invalid(at, problem));
        }
    }
    Ok(())
}

fn names<'a>(table: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), InvalidEntry> {
    let mut seen: Vec<&str> = Vec::new();
    for (number, name) in names.enumerate() {
        let at = [At::Key(table), At::Item(number), At::Key("name")];
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || !name.chars().all(fits) {
            let problem = format!("expected a name of letters, digits, `-`, `_` and `.`, found {name:?}");
            return Err(invalid(at, problem));
        }
        if seen.contains(&name) {
            return Err(invalid(at, format!("{name:?} occurs twice; expected a different name for each")));
        }
        seen.push(name);
    }
    Ok(())
}
