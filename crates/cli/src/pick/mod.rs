//! `quarry pick`: choosing a result in the terminal, with a preview.
//!
//! It draws on stderr, so that stdout has only the position that was picked.

pub mod state;
pub mod view;

use std::io::{self, IsTerminal};
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use quarry_index::{Hit, RankingWeights, Update, snippet};
use quarry_session::settings::SearchDefaults;
use quarry_session::{Query, Tree, UnitsRequest};
use quarry_source::SourceText;
use quarry_text::query_terms;
use ratatui::crossterm::event;

use self::state::{Choice, PickResults, Preview, PreviewLine, State, Step};
use crate::index::{SourcesArgs, with_notices};
use crate::log::{self, Record};
use crate::model::RerankArgs;
use crate::output;
use crate::results::FilterArgs;
use crate::screen::Screen;
use crate::settings;
use crate::terminal;

/// Results that can be chosen among.
const LIMIT: usize = 50;

/// Lines of a unit that count as its most relevant ones.
const FOCUS: usize = 3;

/// Arguments of `quarry pick`.
#[derive(Debug, Args)]
pub struct PickArgs {
    /// Initial query; it can be edited while results are shown
    query: Option<String>,
    #[command(flatten)]
    source: SourcesArgs,
    #[command(flatten)]
    rerank: RerankArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number of results
    #[arg(short = 'k', long = "limit", value_name = "N", default_value_t = LIMIT, value_parser = settings::at_least_one)]
    limit: usize,
    /// Print +LINE PATH, for vi, emacs and nano, instead of PATH:LINE
    #[arg(long)]
    vi: bool,
    /// Search the existing index, without checking for changed files
    #[arg(long)]
    no_index_update: bool,
}

/// Runs `quarry pick`: exit code 1 where nothing was picked.
pub fn run(mut args: PickArgs) -> anyhow::Result<ExitCode> {
    if !io::stderr().is_terminal() {
        bail!("`quarry pick` needs a terminal, but stderr is not one; use `quarry search` in scripts");
    }
    args.source.rerank(args.rerank);
    let update = if args.no_index_update { Update::Never } else { Update::IfPossible };
    let session = args.source.session(args.filter.narrowing()?).with_update(update);
    let snapshot = with_notices(|notices| session.snapshot(None, notices))?;
    let SearchDefaults { threshold, ranking, .. } = snapshot.defaults.clone();
    let search = Search { tree: snapshot.tree(), limit: args.limit, threshold, ranking };
    let mut state = State::new(args.query.as_deref().unwrap_or_default());
    let step = Screen::open().and_then(|mut screen| choose(&mut screen, &search, &mut state))?;
    let picked = state.list.selected().filter(|_| step == Step::Pick);
    if !state.found.query.is_empty() {
        log::append(|| {
            let opened = picked.map(|position| position + 1);
            let hits = state.found.choices.iter().map(|choice| &choice.hit);
            Record::from_hits("pick", &search.tree, &state.found.query, hits, opened)
        });
    }
    let Some(hit) = picked.and_then(|position| Some(&state.found.choices.get(position)?.hit)) else {
        return Ok(ExitCode::from(1));
    };
    let (file, line) = (search.tree.shown(hit), hit.start_line);
    if args.vi {
        output::print(&format!("+{line} {}\n", file.display()))?;
    } else {
        output::print_paths(std::iter::once((file.as_path(), format!(":{line}"))), '\n')?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the state and takes events, until one of them ends it.
fn choose(screen: &mut Screen, search: &Search, state: &mut State) -> anyhow::Result<Step> {
    loop {
        // Handle pending key presses first, then search once.
        if !event::poll(Duration::ZERO)? {
            if state.is_outdated() {
                state.show(search.run(state.query())?);
            }
            if let Some(hit) = state.lacks_preview() {
                let preview = search.preview(hit, &state.found.terms);
                state.preview(preview);
            }
            screen.draw(|frame| view::draw(frame, state))?;
        }
        match state.update(&event::read()?) {
            Step::Continue => {}
            end => return Ok(end),
        }
    }
}

struct Search {
    tree: Tree,
    limit: usize,
    threshold: Option<f32>,
    ranking: RankingWeights,
}

impl Search {
    fn run(&self, query: &str) -> anyhow::Result<PickResults> {
        let nothing = PickResults { query: query.to_owned(), ..PickResults::default() };
        if query_terms(query).is_empty() {
            return Ok(nothing);
        }
        let start = Instant::now();
        let (limit, threshold) = (self.limit, self.threshold);
        let request = UnitsRequest { limit, threshold, ..UnitsRequest::new(&self.ranking) };
        let trees = self.tree.names();
        let request = UnitsRequest { trees: &trees, ..request };
        // A query may be incomplete while it is being typed.
        let asked = Query::parse(query).unwrap_or_else(|_| Query::plain(query));
        let found = quarry_session::search(&self.tree.index, asked, &request)?;
        let choice = |hit: Hit| {
            let position = format!("{}:{}", self.tree.shown(&hit).display(), hit.start_line);
            Choice { hit, position }
        };
        Ok(PickResults {
            confident: found.confident != Some(false),
            choices: found.hits.into_iter().map(choice).collect(),
            terms: found.terms,
            took_ms: quarry_session::milliseconds(start.elapsed()),
            ..nothing
        })
    }

    fn preview(&self, hit: &Hit, terms: &[String]) -> Preview {
        // A file that has gone since the index was opened has no lines to show.
        let file = self.tree.index.text(hit).ok();
        let content = file.as_ref().map(SourceText::to_str).unwrap_or_default();
        let Range { start, end } = file.as_ref().map_or(0..0, |file| self.tree.index.lines(hit, file));
        let source = content.lines().take(end).skip(start).collect::<Vec<_>>().join("\n");
        let line = |(index, text): (usize, &str)| PreviewLine {
            number: file.as_ref().map_or(0, |file| file.line_number(index)),
            matches: terminal::disjoint(&snippet::matches(text, terms)),
            text: text.to_owned(),
        };
        Preview {
            unit: hit.unit,
            lines: (start..).zip(source.lines()).map(line).collect(),
            focus: snippet::best_lines(&source, terms, FOCUS),
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_index::ScoreParts;
    use quarry_source::UnitKind;

    use super::*;

    /// Results for a query: functions of one file.
    pub fn found(query: &str, n: usize) -> PickResults {
        let hit = |unit: usize| Hit {
            unit,
            root: 0,
            path: "src/a.rs".to_owned(),
            start_line: 10 + unit as u32,
            end_line: 40,
            name: format!("unit{unit}"),
            signature: String::new(),
            kind: UnitKind::Function,
            language: "rust".to_owned(),
            score: 1.0,
            parts: ScoreParts::default(),
        };
        let choice = |unit| Choice { hit: hit(unit), position: format!("src/a.rs:{}", 10 + unit) };
        let choices = (0..n).map(choice).collect();
        PickResults {
            query: query.to_owned(),
            choices,
            confident: true,
            took_ms: 0.5,
            ..PickResults::default()
        }
    }

    /// A preview of lines with their numbers.
    pub fn preview(unit: usize, n_lines: usize, focus: Range<usize>) -> Preview {
        let line = |index| PreviewLine {
            number: 10 + index as u32,
            text: format!("line {index}"),
            matches: Vec::new(),
        };
        Preview { unit, lines: (0..n_lines).map(line).collect(), focus }
    }
}
