//! `--explain`: a score as a tree of its parts.

use std::fmt::Write as _;

use quarry_index::{Combination, Explanation};

/// A line for each number that is made of others, which it names with their values; those that are themselves made of
/// others stand below it.
pub fn tree(explanation: &Explanation) -> String {
    let mut text = format!("    {}\n", formula(explanation));
    branches(&mut text, "    ", explanation);
    text
}

fn branches(text: &mut String, before: &str, explanation: &Explanation) {
    let mut inner = explanation
        .parts
        .iter()
        .filter(|part| !part.parts.is_empty() && (part.value != 0.0 || is_list(part)))
        .peekable();
    while let Some(part) = inner.next() {
        let (branch, below) = if inner.peek().is_some() { ("├─ ", "│  ") } else { ("└─ ", "   ") };
        let _ = writeln!(text, "{before}{branch}{}", formula(part));
        branches(text, &format!("{before}{below}"), part);
    }
}

/// Returns whether a number stands for several that it is not computed from.
fn is_list(explanation: &Explanation) -> bool {
    explanation.combination.is_none() && explanation.parts.len() > 1
}

/// `words 0.812 = 1.310 unit and file / 1.613 of the best one`; without what adds nothing to a sum.
fn formula(Explanation { name, value, combination, parts }: &Explanation) -> String {
    let (sign, nothing) = match combination {
        None if parts.is_empty() || !parts.iter().all(|part| part.parts.is_empty()) => {
            return format!("{name} {value:.3}");
        }
        None => {
            let parts: Vec<String> =
                parts.iter().map(|part| format!("{} {}", part.value, part.name)).collect();
            return format!("{name} {value:.3} ({})", parts.join(", "));
        }
        Some(Combination::Sum) => (" + ", Some(0.0)),
        Some(Combination::Product) => (" × ", None),
        Some(Combination::Quotient) => (" / ", None),
        // The exponential of their difference.
        Some(Combination::Softmax) => (" − ", None),
    };
    let parts = parts.iter().filter(|part| Some(part.value) != nothing);
    let parts: Vec<String> = parts.map(|part| format!("{:.3} {}", part.value, part.name)).collect();
    if parts.is_empty() {
        format!("{name} {value:.3}")
    } else if *combination == Some(Combination::Softmax) {
        format!("{name} {value:.3} = exp({})", parts.join(sign))
    } else {
        format!("{name} {value:.3} = {}", parts.join(sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &'static str, combination: Combination, parts: Vec<Explanation>) -> Explanation {
        Explanation { name, value: combination.combine(&parts), combination: Some(combination), parts }
    }

    fn leaf(name: &'static str, value: f32) -> Explanation {
        Explanation { name, value, combination: None, parts: Vec::new() }
    }

    #[test]
    fn each_line_explains_its_number() {
        let share =
            node("share", Combination::Quotient, vec![leaf("BM25F", 3.0), leaf("of the best one", 4.0)]);
        let lexical = node("lexical", Combination::Product, vec![leaf("weight", 0.5), share]);
        let none = node("name", Combination::Product, vec![leaf("weight", 0.5), leaf("match", 0.0)]);
        let file = node("file", Combination::Sum, vec![leaf("a", 0.25), leaf("b", 0.125)]);
        let score = node("score", Combination::Sum, vec![lexical, none, file]);
        let expected = "    score 0.750 = 0.375 lexical + 0.375 file
    ├─ lexical 0.375 = 0.500 weight × 0.750 share
    │  └─ share 0.750 = 3.000 BM25F / 4.000 of the best one
    └─ file 0.375 = 0.250 a + 0.125 b
";
        assert_eq!(tree(&score), expected);
        let list =
            Explanation { parts: vec![leaf("frames", 2.0), leaf("names", 3.0)], ..leaf("recognized", 0.0) };
        let issue = node("issue", Combination::Sum, vec![leaf("message", 1.0), list]);
        let expected = "    issue 1.000 = 1.000 message\n    └─ recognized 0.000 (2 frames, 3 names)\n";
        assert_eq!(tree(&issue), expected);
        assert_eq!(tree(&leaf("cosine", 0.5)), "    cosine 0.500\n");
    }
}
