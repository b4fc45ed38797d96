//! A card as one page with charts, which needs no other file.

use maud::{Markup, html};
use quarry_eval::report;
use quarry_eval::report::chart;

use super::{Block, Card, Section};

/// Bars of a chart; what follows is in the table beside it.
const MAX_BARS: usize = 20;

pub(crate) fn page(card: &Card) -> String {
    let anchor = |heading: &str| heading.to_lowercase().replace(' ', "-");
    let header = html! {
        @for part in &card.introduction { (block(part)) }
        nav { @for Section { heading, .. } in &card.sections {
            a href=(format!("#{}", anchor(heading))) { (heading) }
        } }
    };
    let main = html! {
        @for Section { heading, blocks } in &card.sections {
            section id=(anchor(heading)) {
                h2 { (heading) }
                @for part in blocks { (block(part)) }
            }
        }
    };
    report::document(&card.title, &header, &main)
}

fn block(block: &Block) -> Markup {
    match block {
        Block::Text(text) => html! { p { (with_code(text)) } },
        Block::Command(command) => html! { pre { code { (command) } } },
        Block::Numbered(items) => html! { ol { @for item in items { li { (with_code(item)) } } } },
        Block::Bullets(items) => html! { ul { @for item in items { li { (with_code(item)) } } } },
        Block::Table(table) => report::table(table),
        Block::Chart(title, bars) => html! {
            @if !bars.is_empty() {
                figure {
                    (chart::counts(title, &bars[..bars.len().min(MAX_BARS)]))
                    figcaption { (title) @if bars.len() > MAX_BARS { ": the first " (MAX_BARS) " of " (bars.len()) } }
                }
            }
        },
    }
}

/// Renders text between backticks as code.
fn with_code(text: &str) -> Markup {
    html! {
        @for (number, piece) in text.split('`').enumerate() {
            @if number % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}
