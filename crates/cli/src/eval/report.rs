//! Results of `quarry eval run` as pages, for `quarry serve --report`, and in files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use quarry_eval::plan::Results;
use quarry_eval::report;

use super::plan::{self, REPORT, RESULTS};

/// Maximum bytes of a file of results.
const MAX_BYTES: u64 = 1 << 30;

/// Writes the page of results again; to report.html beside them unless `page` names another file.
pub fn write_page(results: &Path, page: Option<&Path>) -> anyhow::Result<()> {
    let path = file_of(results);
    let text = report::page(&read(&path)?);
    match page {
        Some(page) => plan::write_page(page, &text),
        None => {
            let directory = path.parent().unwrap_or(Path::new(""));
            plan::write_output(&mut plan::open_outputs(directory)?, directory, Path::new(REPORT), &text)
        }
    }
}

fn file_of(results: &Path) -> PathBuf {
    if results.is_dir() { results.join(RESULTS) } else { results.to_owned() }
}

fn read(path: &Path) -> anyhow::Result<Results> {
    let text = quarry_files::read_regular(path, MAX_BYTES).with_context(|| {
        format!("{}: cannot be read: expected results that `quarry eval run` wrote", path.display())
    })?;
    serde_json::from_slice(&text).with_context(|| {
        format!("{}: expected results of this version of quarry; run the plan again", path.display())
    })
}

#[cfg(feature = "serve")]
pub use served::documents;

/// Results in a browser. Files are read whenever they are asked for, so that pages show what was measured meanwhile.
#[cfg(feature = "serve")]
mod served {
    use std::ffi::OsStr;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use anyhow::{Context, bail};
    use quarry_eval::plan::QueryCells;
    use quarry_eval::report::{self, Order, Question, ServedPage};
    use quarry_http::{Document, MakeDocument};

    use super::{RESULTS, file_of, read};

    /// Maximum bytes of a page.
    const MAX_PAGE_BYTES: u64 = 64 << 20;

    #[derive(Debug, Clone, PartialEq, Eq)]
    enum ReportSource {
        /// The file of a plan's results.
        Results(PathBuf),
        /// A page that was written as a file.
        Page(PathBuf),
    }

    impl ReportSource {
        fn path(&self) -> &Path {
            match self {
                Self::Results(path) | Self::Page(path) => path,
            }
        }
    }

    /// The pages of what is at paths: directories that `quarry eval run` wrote, their results.json, and directories or
    /// files with pages of HTML.
    pub fn documents(paths: &[PathBuf]) -> anyhow::Result<Arc<MakeDocument>> {
        let all = shown(paths)?;
        Ok(Arc::new(move |path: &str, params: &[(String, String)]| {
            let page = page(&all, path, params).transpose()?;
            let page = page.map(|ServedPage { html, policy }| Document { html, policy });
            Some(page.map_err(|error| format!("{error:#}")))
        }))
    }

    fn shown(paths: &[PathBuf]) -> anyhow::Result<Vec<ReportSource>> {
        let mut all = Vec::new();
        for path in paths {
            let is_page = |path: &Path| path.extension() == Some(OsStr::new("html"));
            let found = all.len();
            let results = file_of(path);
            if !path.is_dir() && is_page(path) {
                all.push(ReportSource::Page(path.clone()));
            } else if results.is_file() {
                // Malformed results are reported now, not only in a browser.
                read(&results)?;
                all.push(ReportSource::Results(results));
            }
            if path.is_dir() {
                let mut pages = Vec::new();
                for entry in path.read_dir().with_context(|| path.display().to_string())? {
                    let page = entry.with_context(|| path.display().to_string())?.path();
                    // The page of the results is made anew.
                    let is_report = page.with_file_name(RESULTS).is_file() && page.ends_with("report.html");
                    pages.extend((is_page(&page) && !is_report).then_some(ReportSource::Page(page)));
                }
                pages.sort_by(|a, b| a.path().cmp(b.path()));
                all.extend(pages);
            }
            if all.len() == found {
                bail!(
                    "{}: expected results that `quarry eval run` wrote, or pages of HTML, found neither",
                    path.display()
                );
            }
        }
        Ok(all)
    }

    /// The page at a path: a list at `/`, and each thing that is shown at its number.
    fn page(
        all: &[ReportSource],
        path: &str,
        params: &[(String, String)],
    ) -> anyhow::Result<Option<ServedPage>> {
        let links: Vec<(String, String)> = vec![("All pages".to_owned(), "/".to_owned())];
        if path == "/" {
            return overview(all).map(Some);
        }
        let mut parts = path.trim_start_matches('/').split('/');
        let (number, rest, end) =
            (parts.next().and_then(|number| number.parse().ok()), parts.next(), parts.next());
        let Some((number, shown)) = number.and_then(|number: usize| Some((number, all.get(number)?))) else {
            return Ok(None);
        };
        match (shown, rest, end) {
            (ReportSource::Page(path), None, None) => {
                let html = quarry_files::read_regular_text(path, MAX_PAGE_BYTES);
                Ok(Some(report::served_file(html.with_context(|| path.display().to_string())?)))
            }
            (ReportSource::Results(path), None, None) => {
                let page = report::served_page(&read(path)?, &format!("/{number}/compare"), &links);
                Ok(Some(page))
            }
            (ReportSource::Results(path), Some("compare"), None) => {
                let results = read(path)?;
                let question = question(&results, params)?;
                let directory = path.parent().unwrap_or(Path::new("."));
                let queries = |method: usize| -> anyhow::Result<_> {
                    let dataset = results.datasets.get(question.dataset).context("no such data set")?;
                    let part = dataset.parts.get(question.part).context("no such part")?;
                    let method = part.methods.get(method).context("no such method")?;
                    Ok(QueryCells { dataset, part, method }.read(directory)?)
                };
                let links = [&links[..], &[(results.title.clone(), format!("/{number}"))]].concat();
                let address = format!("/{number}/compare");
                report::comparison(&results, &question, queries, (&address, &links))
            }
            _ => Ok(None),
        }
    }

    fn overview(all: &[ReportSource]) -> anyhow::Result<ServedPage> {
        let mut links = Vec::new();
        for (number, shown) in all.iter().enumerate() {
            let name = match shown {
                ReportSource::Results(path) => format!("{} ({})", read(path)?.title, path.display()),
                ReportSource::Page(path) => path.display().to_string(),
            };
            links.push((name, format!("/{number}")));
        }
        Ok(report::served_list("Results", &links))
    }

    /// The comparison that parameters ask for: first the baseline and the method after it.
    fn question(
        results: &quarry_eval::plan::Results,
        params: &[(String, String)],
    ) -> anyhow::Result<Question> {
        let text =
            |name: &str| params.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let number = |name: &str| {
            let parse = |text: &str| {
                text.parse::<usize>().with_context(|| format!("{name}: expected a number, found {text:?}"))
            };
            text(name).filter(|text| !text.is_empty()).map(parse).transpose()
        };
        let (dataset, part) = (number("dataset")?.unwrap_or(0), number("part")?.unwrap_or(0));
        let found = results.datasets.get(dataset);
        let methods = found.and_then(|dataset| dataset.parts.get(part)).map_or(&[][..], |part| &part.methods);
        let baseline = methods
            .iter()
            .position(|method| found.is_some_and(|dataset| dataset.baseline == method.method))
            .unwrap_or(0);
        let first = number("a")?.unwrap_or(baseline);
        let second = number("b")?.unwrap_or(usize::from(first == 0));
        let order = match text("order") {
            None | Some("") => Order::default(),
            Some(name) => {
                let known = Order::ALL.iter().find(|(known, _)| *known == name).map(|(_, order)| *order);
                known.with_context(|| {
                    let names = Order::ALL.map(|(name, _)| name).join(", ");
                    format!("order: expected one of {names}, found {name:?}")
                })?
            }
        };
        let (words, page) = (text("q").unwrap_or_default().trim().to_owned(), number("page")?.unwrap_or(0));
        Ok(Question { dataset, part, methods: [first, second], order, words, page })
    }
}
