//! The target of a conversion: a file, or a directory of several.

use super::is_data_file;
use crate::formats::source::Source;
use crate::formats::{Encoding, FORMATS, Format, FormatError, beir, cosqa, cosqa_plus, huggingface, qrels};
use std::path::{Path, PathBuf};

/// A directory format with several files that can be written.
#[derive(Debug)]
pub struct Layout {
    pub name: &'static str,
    pub about: &'static str,
    /// Files and their formats; `{split}` and `{name}` are replaced by the split and the name of the directory.
    pub files: &'static [(&'static str, &'static Format)],
}

/// The directory formats that can be written.
pub static LAYOUTS: &[Layout] = &[
    Layout {
        name: "beir",
        about: "BEIR directory, which `quarry eval` measures",
        files: &[
            ("corpus.jsonl", &beir::CORPUS),
            ("queries.jsonl", &beir::QUERIES),
            ("qrels/{split}.tsv", &qrels::BEIR),
        ],
    },
    Layout {
        name: "coir",
        about: "the two data sets of a CoIR task",
        files: &[
            ("{name}-queries-corpus/corpus.jsonl", &beir::CORPUS),
            ("{name}-queries-corpus/queries.jsonl", &beir::QUERIES),
            ("{name}-qrels/{split}.jsonl", &huggingface::COIR_QRELS),
        ],
    },
    Layout {
        name: "mteb",
        about: "MTEB retrieval data set",
        files: &[
            ("corpus.jsonl", &beir::CORPUS),
            ("queries.jsonl", &beir::QUERIES),
            ("qrels/{split}.jsonl", &huggingface::MTEB_QRELS),
        ],
    },
    Layout {
        name: "mteb-parquet",
        about: "MTEB or BEIR data set as on Hugging Face, in Parquet",
        files: &[
            ("corpus/corpus-00000-of-00001.parquet", &beir::CORPUS),
            ("queries/queries-00000-of-00001.parquet", &beir::QUERIES),
            ("qrels/{split}-00000-of-00001.parquet", &huggingface::MTEB_QRELS),
        ],
    },
    Layout {
        name: "cosqa",
        about: "CoSQA's retrieval file and code base",
        files: &[("cosqa-retrieval-{split}.json", &cosqa::RETRIEVAL), ("code_idx_map.json", &cosqa::CODES)],
    },
    Layout {
        name: "cosqa-plus-folder",
        about: "CoSQA+'s queries, code base and pairs",
        files: &[
            ("query.json", &cosqa_plus::QUERIES),
            ("code.json", &cosqa_plus::CODES),
            ("pairs-{split}.json", &cosqa_plus::PAIRS),
        ],
    },
];

static DEFAULT_LAYOUT: &Layout = &LAYOUTS[0];

#[derive(Debug, Clone, Copy)]
pub enum Target {
    Directory(&'static Layout),
    File(&'static Format),
}

impl Target {
    /// The writable directory or file format with a name.
    pub fn named(name: &str) -> Option<Self> {
        let layout = LAYOUTS.iter().find(|layout| layout.name == name).map(Self::Directory);
        layout.or_else(|| writable().find(|format| format.name == name).map(Self::File))
    }

    /// The default target for `out`: a BEIR directory, or, for the name of a data file such as
    /// `pairs.parquet`, the format of all sources.
    ///
    /// # Errors
    /// When `out` is the name of a file and the sources have no common format, or one that cannot be written.
    pub fn default_for(out: &Path, sources: &[Source]) -> Result<Self, FormatError> {
        if !names_a_file(out) {
            return Ok(Self::Directory(DEFAULT_LAYOUT));
        }
        let mut formats: Vec<&str> = sources.iter().map(|source| source.format.name).collect();
        formats.sort_unstable();
        formats.dedup();
        let only = if let [name] = formats[..] { Self::named(name) } else { None };
        only.ok_or_else(|| FormatError::File {
            path: out.to_owned(),
            expected: "files of one format that can be written, to keep it".into(),
            found: formats.join(", "),
            remedy: format!(
                "name the format of the file with --to (`quarry data formats` lists them), or a directory for {}",
                DEFAULT_LAYOUT.about
            ),
        })
    }

    pub(super) fn check_name(self, out: &Path) -> Result<(), FormatError> {
        match self {
            Self::Directory(layout) if names_a_file(out) => Err(FormatError::File {
                path: out.to_owned(),
                expected: format!("the name of a directory: {} is {}", layout.name, layout.about),
                found: "the name of a file".into(),
                remedy: "omit the extension, or name the format of a file with --to; `quarry data formats` lists them"
                    .into(),
            }),
            _ => Ok(()),
        }
    }

    /// All names that [`Self::named`] accepts.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LAYOUTS.iter().map(|layout| layout.name).chain(writable().map(|format| format.name))
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory(layout) => layout.name,
            Self::File(format) => format.name,
        }
    }

    /// The programming language that its readers assume for all code, if any.
    pub fn language(self) -> Option<&'static str> {
        match self.name() {
            "advtest" | "cosqa" | "cosqa-codes" | "cosqa-qa" | "cosqa-retrieval" | "query4code"
            | "webquery" => Some("python"),
            "statcodesearch" | "statcodesearch-json" => Some("r"),
            _ => None,
        }
    }

    /// Paths, formats and encodings: the encoding in which the format is published, except for files named
    /// `.parquet`.
    pub(super) fn files(
        self,
        out: &Path,
        staged: &Path,
        split: &str,
    ) -> Vec<(PathBuf, &'static Format, Encoding)> {
        let container = |path: &Path, format: &Format| {
            let parquet = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"));
            if parquet { Encoding::Parquet } else { format.container }
        };
        match self {
            Self::File(format) => vec![(staged.to_owned(), format, container(out, format))],
            Self::Directory(layout) => {
                let name = out.file_name().unwrap_or_default().to_string_lossy();
                let path = |file: &str| staged.join(file.replace("{split}", split).replace("{name}", &name));
                let target = |(file, format): &(&str, &'static Format)| {
                    let path = path(file);
                    let container = container(&path, format);
                    (path, *format, container)
                };
                layout.files.iter().map(target).collect()
            }
        }
    }
}

fn names_a_file(out: &Path) -> bool {
    out.file_name().is_some_and(|name| is_data_file(&name.to_string_lossy().to_lowercase()))
}

fn writable() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().copied().filter(|format| format.write.is_some())
}
