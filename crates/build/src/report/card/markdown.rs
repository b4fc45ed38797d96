//! A card as Markdown.

use quarry_metrics::table::Layout;

use super::{Block, Card, Section};

pub(crate) fn markdown(card: &Card) -> String {
    let introduction = card.introduction.iter().map(block);
    let sections = card.sections.iter().map(|Section { heading, blocks }| {
        let blocks: String = blocks.iter().map(block).collect();
        format!("## {heading}\n\n{blocks}")
    });
    let text: String = introduction.chain(sections).collect();
    format!("# {}\n\n{}\n", card.title, text.trim_end())
}

/// A block with a blank line after it.
fn block(block: &Block) -> String {
    match block {
        Block::Text(text) => format!("{text}\n\n"),
        Block::Command(command) => format!("```sh\n{command}\n```\n\n"),
        Block::Numbered(items) => {
            let items = (1..).zip(items).map(|(number, item)| format!("{number}. {item}\n"));
            items.collect::<String>() + "\n"
        }
        Block::Bullets(items) => items.iter().map(|item| format!("- {item}\n")).collect::<String>() + "\n",
        Block::Table(table) => table.render(Layout::Markdown) + "\n",
        Block::Chart(..) => String::new(),
    }
}
