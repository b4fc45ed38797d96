//! A table, and the forms in which it can be written.

use std::fmt::Write;

/// Columns with a heading each; the first one names the row, the others mostly hold numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// How a table is written.
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
    /// A table without rows.
    #[must_use]
    pub fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. Cells that it lacks are empty, those too many are cut off.
    pub fn push(&mut self, row: impl IntoIterator<Item = impl Into<String>>) {
        let mut row: Vec<String> = row.into_iter().map(Into::into).collect();
        row.resize(self.header.len(), String::new());
        self.rows.push(row);
    }

    /// The headings.
    #[must_use]
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// The rows, each as long as the header.
    #[must_use]
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The table as text that ends with a line break.
    #[must_use]
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
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let mut text = String::new();
        for row in self.lines() {
            let mut line = String::new();
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = match index {
                    0 => write!(line, "{cell:<width$}"),
                    _ => write!(line, "  {cell:>width$}"),
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
        let columns = "r".repeat(self.header.len().saturating_sub(1));
        let mut text =
            format!("\\begin{{tabular}}{{l{columns}}}\n\\toprule\n{}\\midrule\n", line(&self.header));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text.push_str("\\bottomrule\n\\end{tabular}\n");
        text
    }

    fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in self.lines() {
            // Memory refuses nothing, and rows are as long as the header.
            let _ = writer.write_record(row);
        }
        String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
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
}
