//! Named rankings: the default and variants of it, which `quarry eval repo` compares on a repository and users choose
//! by name.

use crate::RankingWeights;

pub struct NamedRanking {
    /// The name: lower case, with hyphens.
    pub name: &'static str,
    /// Difference from the default, in a few words.
    pub about: &'static str,
    depart: fn(&mut RankingWeights),
}

/// All named rankings; the default is first.
pub const RANKINGS: [NamedRanking; 11] = [
    NamedRanking { name: "default", about: "words and meaning of code and file, with rules", depart: |_| {} },
    NamedRanking { name: "no-rules", about: "words and meaning, without rules", depart: switch_rules_off },
    NamedRanking {
        name: "no-file",
        about: "without the words of the file around",
        depart: |ranking| ranking.file_weight = 0.0,
    },
    NamedRanking {
        name: "no-meaning",
        about: "words with rules, without the model",
        depart: |ranking| ranking.dense_weight = 0.0,
    },
    NamedRanking {
        name: "more-words",
        about: "words count more",
        depart: |ranking| ranking.dense_weight = 0.35,
    },
    NamedRanking {
        name: "more-meaning",
        about: "the model counts more",
        depart: |ranking| ranking.dense_weight = 0.85,
    },
    NamedRanking {
        name: "no-words",
        about: "the model with rules, without words",
        depart: |ranking| ranking.dense_weight = 1.0,
    },
    NamedRanking {
        name: "meaning-only",
        about: "the model without rules, file or words",
        depart: |ranking| {
            switch_rules_off(ranking);
            (ranking.dense_weight, ranking.file_weight) = (1.0, 0.0);
        },
    },
    NamedRanking {
        name: "words-only",
        about: "words without rules, file or model",
        depart: |ranking| {
            switch_rules_off(ranking);
            (ranking.dense_weight, ranking.file_weight) = (0.0, 0.0);
        },
    },
    NamedRanking {
        name: "code-only",
        about: "words of code and documentation, not of names and paths",
        depart: |ranking| ranking.bm25f.weights[..3].fill(0.0),
    },
    NamedRanking {
        name: "names-only",
        about: "words of names and paths, not of code",
        depart: |ranking| ranking.bm25f.weights[3..].fill(0.0),
    },
];

impl NamedRanking {
    /// The ranking with a name; `None` if there is none.
    pub fn find(name: &str) -> Option<&'static Self> {
        RANKINGS.iter().find(|ranking| ranking.name == name)
    }

    pub fn weights(&self) -> RankingWeights {
        let mut weights = RankingWeights::default();
        (self.depart)(&mut weights);
        weights
    }
}

/// Disables the rules about names, paths, tests, private and repeated code, and those for questions about behavior.
fn switch_rules_off(ranking: &mut RankingWeights) {
    let RankingWeights { bm25f, dense_weight, file_weight, .. } = ranking;
    *ranking = RankingWeights {
        bm25f: bm25f.clone(),
        dense_weight: *dense_weight,
        file_weight: *file_weight,
        path_weight: 0.0,
        name_weight: 0.0,
        name_power: 1.0,
        definition: 0.0,
        mention: 0.0,
        demotion: 1.0,
        test: 1.0,
        private: 1.0,
        repetition: 1.0,
        duplicate: 1.0,
        function_share: 0.0,
        issues: false,
        rerank_function: ranking.rerank_function,
        rerank_file: ranking.rerank_file,
        cross_encoder_function: ranking.cross_encoder_function,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexical::FIELDS;

    #[test]
    fn rankings_have_different_names_and_weights_and_the_default_is_first() {
        assert_eq!(RANKINGS[0].weights(), RankingWeights::default());
        for (position, ranking) in RANKINGS.iter().enumerate() {
            let is_same =
                |other: &NamedRanking| other.name == ranking.name || other.weights() == ranking.weights();
            assert!(!RANKINGS[..position].iter().any(is_same), "{}", ranking.name);
            assert_eq!(NamedRanking::find(ranking.name).map(|found| found.about), Some(ranking.about));
        }
        assert!(NamedRanking::find("").is_none());
    }

    #[test]
    fn a_ranking_differs_as_its_name_says() {
        let weights = |name: &str| NamedRanking::find(name).unwrap().weights();
        let default = RankingWeights::default();
        assert_eq!(weights("more-words"), RankingWeights { dense_weight: 0.35, ..default.clone() });
        let no_rules = weights("no-rules");
        assert_eq!(
            (no_rules.dense_weight, no_rules.file_weight),
            (default.dense_weight, default.file_weight)
        );
        assert_eq!((no_rules.path_weight, no_rules.test, no_rules.duplicate), (0.0, 1.0, 1.0));
        assert_eq!(FIELDS, ["name", "file", "folder", "doc", "body"]);
        assert_eq!(weights("names-only").bm25f.weights, [1.0, 1.0, 1.0, 0.0, 0.0]);
        assert_eq!(weights("code-only").bm25f.weights, [0.0, 0.0, 0.0, 1.0, 1.0]);
    }
}
