//! Tables, and the layouts in which they can be written.

use std::fmt::Write;

/// Columns with a heading each; the first one names the row, the others hold numbers unless they are
/// [aligned left](Table::align_left).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Positions of the columns that hold words.
    left: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Columns of a terminal.
    #[default]
    Text,
    /// A table of markdown.
    Markdown,
    /// A `tabular` of LaTeX, with the rules of the package booktabs.
    Latex,
    /// Comma-separated values, a heading first (RFC 4180).
    Csv,
}

impl Table {
    pub fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new(), left: vec![0] }
    }

    /// Aligns the columns of these positions left, as words are read; numbers are aligned right.
    #[must_use]
    pub fn align_left(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.left.extend(columns);
        self
    }

    /// Aligns the column at this position right, as numbers are, which is the default for all but the first.
    #[must_use]
    pub fn align_right(mut self, column: usize) -> Self {
        self.left.retain(|left| *left != column);
        self
    }

    /// Adds a row. Missing cells are empty, surplus ones are dropped.
    pub fn push(&mut self, row: impl IntoIterator<Item = impl Into<String>>) {
        let mut row: Vec<String> = row.into_iter().map(Into::into).collect();
        row.resize(self.header.len(), String::new());
        self.rows.push(row);
    }

    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// The rows, each as long as the header.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The table as text that ends with a line break.
    pub fn render(&self, layout: Layout) -> String {
        match layout {
            Layout::Text => self.text(),
            Layout::Markdown => self.markdown(),
            Layout::Latex => self.latex(),
            Layout::Csv => self.csv(),
        }
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.header).chain(&self.rows)
    }

    fn text(&self) -> String {
        let width = |column: usize| self.lines().map(|row| row[column].chars().count()).max().unwrap_or(0);
        // The longest that `format!` takes; longer cells push those after them to the right.
        let widths: Vec<usize> =
            (0..self.header.len()).map(|column| width(column).min(u16::MAX.into())).collect();
        let mut text = String::new();
        for row in self.lines() {
            let mut line = String::new();
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if index == 0 { "" } else { "  " };
                let _ = match self.left.contains(&index) {
                    true => write!(line, "{gap}{cell:<width$}"),
                    false => write!(line, "{gap}{cell:>width$}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> =
                cells.iter().map(|cell| cell.replace('|', "\\|").replace(['\r', '\n'], " ")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = format!("{}|{}\n", line(&self.header), "---|".repeat(self.header.len()));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text
    }

    fn latex(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| escape_latex(cell)).collect();
            format!("{} \\\\\n", cells.join(" & "))
        };
        let alignment = |column: usize| if self.left.contains(&column) { 'l' } else { 'r' };
        let columns: String = (0..self.header.len()).map(alignment).collect();
        let mut text =
            format!("\\begin{{tabular}}{{{columns}}}\n\\toprule\n{}\\midrule\n", line(&self.header));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text.push_str("\\bottomrule\n\\end{tabular}\n");
        text
    }

    fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in self.lines() {
            // Writing to memory cannot fail, and rows are as long as the header.
            let _ = writer.write_record(row);
        }
        String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
    }
}

/// Output of a command: tables, with text around them for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sections(Vec<Section>);

/// A part of a command's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Section {
    /// Lines for people.
    Text(String),
    Table {
        title: Option<String>,
        table: Table,
    },
}

impl Sections {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds lines that only [`Layout::Text`] shows, as they are.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(Section::Text(text.into()));
        self
    }

    /// The same sections after some lines that only [`Layout::Text`] shows.
    #[must_use]
    pub fn after(mut self, text: impl Into<String>) -> Self {
        self.0.insert(0, Section::Text(text.into()));
        self
    }

    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        self.0.push(Section::Table { title: None, table });
        self
    }

    /// Adds a table with a title: bold in Markdown, a comment in LaTeX and CSV. As text, a blank line precedes
    /// it.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>, table: Table) -> Self {
        self.0.push(Section::Table { title: Some(title.into()), table });
        self
    }

    /// The sections in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Section> {
        self.0.iter()
    }

    /// All sections as text; in every other layout the tables alone, with a blank line between two.
    pub fn render(&self, layout: Layout) -> String {
        let mut out = String::new();
        for section in &self.0 {
            let (title, table) = match section {
                Section::Text(text) if layout == Layout::Text => {
                    out.push_str(text);
                    if !text.is_empty() && !text.ends_with('\n') {
                        out.push('\n');
                    }
                    continue;
                }
                Section::Text(_) => continue,
                Section::Table { title, table } => (title, table),
            };
            if !out.is_empty() && (layout != Layout::Text || title.is_some()) {
                out.push('\n');
            }
            if let Some(title) = title {
                out.push_str(&match layout {
                    Layout::Text => format!("{title}\n"),
                    Layout::Markdown => format!("**{title}**\n\n"),
                    Layout::Latex => format!("% {title}\n"),
                    Layout::Csv => format!("# {title}\n"),
                });
            }
            out.push_str(&table.render(layout));
        }
        out
    }
}

fn escape_latex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', character]),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '<' => escaped.push_str("$<$"),
            '>' => escaped.push_str("$>$"),
            '\n' | '\r' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_keeps_its_own_marks_out_of_cells() {
        let mut table = Table::new(["method", "ndcg@10", "p"]);
        table.push(["bm25 | plain", "0.5", "< 0.001"]);
        table.push(["a_b & \"c\", d", "0.25"]);
        let check = |layout, expected: &str| assert_eq!(table.render(layout), expected);
        check(
            Layout::Text,
            "method        ndcg@10        p\nbm25 | plain      0.5  < 0.001\na_b & \"c\", d     0.25\n",
        );
        check(
            Layout::Markdown,
            "| method | ndcg@10 | p |\n|---|---|---|\n| bm25 \\| plain | 0.5 | < 0.001 |\n| a_b & \"c\", d | 0.25 |  |\n",
        );
        check(
            Layout::Latex,
            "\\begin{tabular}{lrr}\n\\toprule\nmethod & ndcg@10 & p \\\\\n\\midrule\nbm25 | plain & 0.5 & $<$ 0.001 \\\\\n\
             a\\_b \\& \"c\", d & 0.25 &  \\\\\n\\bottomrule\n\\end{tabular}\n",
        );
        check(Layout::Csv, "method,ndcg@10,p\nbm25 | plain,0.5,< 0.001\n\"a_b & \"\"c\"\", d\",0.25,\n");
    }

    #[test]
    fn cells_may_be_longer_than_a_column_can_be_wide() {
        let mut table = Table::new(["method", "mean"]);
        table.push(["a".repeat(70_000), "0.5".to_owned()]);
        assert!(table.render(Layout::Text).ends_with("a   0.5\n"));
    }

    #[test]
    fn words_are_aligned_left() {
        let mut table = Table::new(["method", "mean", "about"]).align_left([2]);
        table.push(["a", "0.5", "short"]);
        table.push(["b", "10.25", "a few words"]);
        let text = "method   mean  about\na         0.5  short\nb       10.25  a few words\n";
        assert_eq!(table.render(Layout::Text), text);
        assert!(table.render(Layout::Latex).starts_with("\\begin{tabular}{lrl}\n"));
    }

    #[test]
    fn sentences_are_for_people_and_tables_for_every_layout() {
        let mut table = Table::new(["a"]);
        table.push(["1"]);
        let sections = Sections::new().text("One:").table(table.clone()).titled("Two", table).text("\nEnd");
        assert_eq!(sections.render(Layout::Text), "One:\na\n1\n\nTwo\na\n1\n\nEnd\n");
        assert_eq!(sections.render(Layout::Csv), "a\n1\n\n# Two\na\n1\n");
        let markdown = "| a |\n|---|\n| 1 |\n\n**Two**\n\n| a |\n|---|\n| 1 |\n";
        assert_eq!(sections.render(Layout::Markdown), markdown);
    }
}
