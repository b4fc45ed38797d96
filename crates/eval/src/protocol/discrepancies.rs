//! Discrepancies between a paper and its code, or within a paper.

/// A difference that changes what a number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discrepancy {
    /// Short name, a letter for the paper (C CoSQA, G GenCodeSearchNet, Q Query4Code, P CoSQA+ version 1, V CoSQA+
    /// version 2, W what Quarry itself does differently) and a number.
    pub number: &'static str,
    /// The difference, in one sentence.
    pub about: &'static str,
}

/// The discrepancies that a protocol prints, and those of training and annotation for which Quarry has a choice.
pub static DISCREPANCIES: &[Discrepancy] = &[
    Discrepancy {
        number: "C5",
        about: "The published search MRR of RoBERTa, 0.18, is in per cent: chance for 6,267 codes is 0.149 per cent.",
    },
    Discrepancy {
        number: "C6",
        about: "CoSQA's ablation by component is captioned as trained and tested on components, while the released \
                command evaluates a model that was trained on complete code.",
    },
    Discrepancy {
        number: "C9",
        about: "Most codes of WebQueryTest, ignoring white space, also occur in the code base of CoSQA, so training on \
                CoSQA has seen them.",
    },
    Discrepancy {
        number: "C10",
        about: "The labels of WebQueryTest are not public: predictions are written to a file for its maintainers, who \
                measure accuracy.",
    },
    Discrepancy {
        number: "C11",
        about: "Only a query's own code counts as its answer, although codes repeat and each was annotated for one \
                query: correct answers that were not judged count as errors.",
    },
    Discrepancy {
        number: "G1",
        about: "GenCodeSearchNet's CoSQA set holds the docstrings of the pairs labeled 0, not the web queries of those \
                labeled 1.",
    },
    Discrepancy {
        number: "G2",
        about: "Equal codes among the candidates keep even a perfect method below an MRR of 1 where ties are broken \
                pessimistically; the ceiling is reported.",
    },
    Discrepancy {
        number: "G3",
        about: "Released negatives of the CodeSearchNet sets join the characters of the code with spaces, positives its \
                tokens, so they can be distinguished without reading the code.",
    },
    Discrepancy {
        number: "G4",
        about: "The released script for CodeT5+ draws each query's distractors from those of the query before it, not \
                from all codes.",
    },
    Discrepancy {
        number: "G5",
        about: "The distractors of text-embedding-ada-002 are uniform and those of CodeT5+ are not, so their published \
                numbers are not comparable.",
    },
    Discrepancy {
        number: "G6",
        about: "The accuracy of GPT-3.5 on the CoSQA set, 0.3282, is its recall on a file of matches only.",
    },
    Discrepancy {
        number: "G7",
        about: "Published ranks of the fine-tuned models may count both logits of each candidate: a method is ranked by \
                its match score here.",
    },
    Discrepancy {
        number: "G8",
        about: "The released matching script for the CoSQA set joins tokens for positives and takes raw code for \
                negatives.",
    },
    Discrepancy {
        number: "G9",
        about: "Four aggregates of the published table do not follow from its parts: RoBERTa's cross-lingual MRR, \
                CodeBERT's cross-lingual accuracy and combined MRR, and the robustness MRR of fine-tuned CodeT5+.",
    },
    Discrepancy {
        number: "Q6",
        about: "The released StaQC script ranks the train file as corpus and chooses checkpoints on the test file; the \
                corpus that is named is ranked here.",
    },
    Discrepancy {
        number: "Q3",
        about: "The released code shows a model the code of callees, the paper their summaries: summaries here, and code \
                with `callees = \"code\"` in a build plan. Its Figure 2 has no summaries: `given = \"code\"` and \
                `given = \"callees\"`.",
    },
    Discrepancy {
        number: "Q12",
        about: "In the released code every call whose last part is the name of a function of the project counts as a \
                call of it, even of the function itself; `calls = \"paper\"` in a build plan distinguishes these.",
    },
    Discrepancy {
        number: "G14",
        about: "StatCodeSearch's notebook drops everything in a script before its first `library(`, not just these \
                lines; here both are kept unless a build plan says `as_released = true` or `library_lines = false`. \
                It also removes blank lines first, so that comments around one are joined: `blank_lines = false`.",
    },
    Discrepancy {
        number: "W1",
        about: "All questions to chat models are in Quarry's own wording, at temperature 0 unless a plan or method sets \
                another. To use published prompts, write each into a file with its prompt's name, and name the \
                directory: `chat(MODEL, prompts = DIR)`, or `prompts` in a plan.",
    },
    Discrepancy {
        number: "W2",
        about: "CoSQA+ cuts queries after 128 tokens, codes after 512 (the second paper 256), and collapses white space \
                before; here each model reads as much as it can, with unchanged white space, unless a plan or command says \
                `as_published`.",
    },
    Discrepancy {
        number: "W3",
        about: "GraphCodeBERT learns from code alone: its trained rows lack the paper's data flow.",
    },
    Discrepancy {
        number: "W4",
        about: "Query4Code trains in mixed precision, where its code skips clipping; here all is in 32 bits, and its \
                recipes do not clip.",
    },
    Discrepancy {
        number: "W5",
        about: "CoSQA's pre-training draws one negative for each pair, as in the paper (the code that it builds on \
                draws seven), at a rate that the paper does not give.",
    },
    Discrepancy {
        number: "W6",
        about: "CoSQA+'s code gives CodeT5+ padded texts without a mask; here they have no padding, \
                in training never, in measuring unless a plan or command says `as_published`.",
    },
    Discrepancy {
        number: "W7",
        about: "Where a recipe reads tokens and a file has none, tokens from Quarry's grammars replace the published \
                ones: a token of several lines is put on one.",
    },
    Discrepancy {
        number: "W8",
        about: "CoSQA+ filtered snippets with Guesslang; here grammars, first and last lines, brackets and signs of \
                gaps decide.",
    },
    Discrepancy {
        number: "W9",
        about: "Query4Code looks rarely used APIs up with a web search engine and summarizes what it finds; \
                here models explain them, with the documentation of a directory where a build plan names one.",
    },
    Discrepancy {
        number: "W10",
        about: "Here written queries have a style, those with the name of their function are removed, and \
                docstrings are hidden from the writer; Query4Code does none of these.",
    },
    Discrepancy {
        number: "W11",
        about: "The recipes for CoSQA's questions and answers warm up over 500 steps, and 1,000 with CoCLR, as \
                the released commands do; the paper states a tenth of all steps for CoCLR.",
    },
    Discrepancy {
        number: "P5",
        about: "Lucene's published MMRR seems to lack the rank adjustment, and the bag of words ranked a smaller corpus: \
                one scorer and one corpus serve all methods here.",
    },
    Discrepancy {
        number: "P9",
        about: "CoSQA's share of pairs labeled 0, about 51 per cent, are annotated negatives, not labels in error.",
    },
    Discrepancy {
        number: "P10",
        about: "The encoders that chose the candidates are ranked on them, and codes that nobody judged count as wrong: \
                judged@k, condensed lists and pools without one encoder are reported beside the plain score.",
    },
    Discrepancy {
        number: "V3",
        about: "CoSQA+'s metric module is not public; its functions are called with k = 10, so that its MRR is likely \
                MRR@10.",
    },
    Discrepancy {
        number: "V4",
        about: "CoSQA+'s second paper has MRR below NDCG@10 by a nearly constant ratio, as if a single relevant code \
                were scored; both metrics are the standard ones here.",
    },
    Discrepancy {
        number: "V5",
        about: "Two columns of MRR in CoSQA+'s second fine-tuning table are unchanged from the first paper.",
    },
    Discrepancy {
        number: "V7",
        about: "CoSQA+'s second paper does not state which queries count; here, those with a positive do.",
    },
];

/// Those about how models are trained here, which affect the results of these only.
pub(crate) const OF_TRAINING: [&str; 5] = ["W3", "W4", "W5", "W6", "W7"];

/// Those that concern models trained with recipes whose names begin so.
const OF_RECIPES: [(&str, &[&str]); 6] = [
    ("cosqa-pretraining", &["W5"]),
    ("cosqa-qa", &["W11"]),
    ("cosqa-plus-v1-codet5p", &["W6"]),
    ("cosqa-plus-v2-codet5p", &["W6"]),
    ("gencodesearchnet", &["W7"]),
    ("query4code", &["W3", "W4", "W7"]),
];

/// The discrepancies that concern a model trained with a recipe, by the name of its file without ending.
pub fn recipe_discrepancies(name: &str) -> impl Iterator<Item = &'static Discrepancy> + use<> {
    let of_name = OF_RECIPES.into_iter().filter(|(start, _)| name.starts_with(start));
    let numbers: Vec<&str> = of_name.flat_map(|(_, numbers)| numbers).copied().collect();
    numbers.into_iter().filter_map(discrepancy)
}

pub fn discrepancy(number: &str) -> Option<&'static Discrepancy> {
    DISCREPANCIES.iter().find(|discrepancy| discrepancy.number == number)
}
