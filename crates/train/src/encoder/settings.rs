//! A training recipe: the loss, the optimization, and the form of the data.

use serde::{Deserialize, Serialize};

use super::objective::Directions;
use super::optimizer::{AdamW, Decay};
use super::rewrite::Rewrite;
use crate::TrainError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Cross-entropy of finding the code among those of the batch.
    #[default]
    InfoNce,
    /// Query4Code's objective for queries, summaries and codes.
    TriLoss,
    /// Each code must score higher than the others by a margin.
    Margin,
    /// A teacher's distribution over the codes of the batch; for a cross-encoder, over the own code and its hard
    /// negatives.
    DistillScores,
    DistillVectors,
    /// A matcher of query and code with binary cross-entropy on the labels.
    Siamese,
    /// A matcher with CoCLR's loss as in its code for search.
    Coclr,
    /// A matcher with CoCLR's loss as in its code for questions and answers.
    CoclrOnline,
    /// A matcher with CoCLR's loss as in its paper.
    CoclrPaper,
    /// Query and code in one sequence, classified.
    CrossEntropy,
}

/// Part of the model that an objective trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One vector for each text.
    Encoder,
    /// Vectors, and a network that compares two of them.
    Matcher,
    /// A class for two texts in one sequence.
    Classifier,
}

impl Objective {
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Objective::Siamese | Objective::Coclr | Objective::CoclrOnline | Objective::CoclrPaper => {
                Kind::Matcher
            }
            Objective::CrossEntropy => Kind::Classifier,
            _ => Kind::Encoder,
        }
    }

    /// Returns whether it learns another model's vectors or scores.
    #[must_use]
    pub(crate) fn distills(self) -> bool {
        matches!(self, Objective::DistillScores | Objective::DistillVectors)
    }

    /// Returns whether labels of 0 are separate examples.
    #[must_use]
    pub fn uses_labels(self) -> bool {
        self.kind() != Kind::Encoder
    }
}

/// Treatment of a code in the batch that answers a query in addition to the query's own code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtherPositives {
    /// It is ignored.
    #[default]
    Ignored,
    /// It is a negative, as in the papers' code.
    Negative,
    /// It is also a positive, with `info-nce`; with other objectives, it is ignored.
    Positive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeVectors {
    /// The encoder being trained.
    #[default]
    Own,
    /// The teacher, whose vectors stay unchanged: the encoder learns to map queries into its space, and is compared
    /// by its first columns if it has more.
    Teacher,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Batches {
    /// Any.
    #[default]
    Random,
    /// Pairs of one repository, as far as it has enough for whole batches: its codes are harder to distinguish.
    Repository,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// Mean reciprocal rank of the own code among all held-out ones and those of a corpus, or with `cross-entropy`
    /// among those labeled for the query; a later epoch wins ties.
    #[default]
    Mrr,
    /// NDCG of the first ten codes, over all codes that answer a held-out query, among the same codes; a later
    /// epoch wins ties.
    Ndcg,
    /// Share of held-out pairs whose label is predicted; a later epoch wins ties.
    Accuracy,
    /// The last epoch is kept.
    Last,
}

impl Select {
    #[must_use]
    pub fn ranks(self) -> bool {
        matches!(self, Select::Mrr | Select::Ndcg)
    }

    /// Name of the measure in cards and tables.
    #[must_use]
    pub fn measure(self) -> &'static str {
        match self {
            Select::Mrr => "MRR",
            Select::Ndcg => "NDCG@10",
            Select::Accuracy => "accuracy",
            Select::Last => "measure",
        }
    }
}

/// Form of the texts to read, if a data set has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// As written.
    #[default]
    Text,
    /// Its published tokens, separated by spaces; for a code without them, the tokens that its grammar finds.
    Tokens,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub objective: Objective,
    /// Options of the encoder, as after the path of a model: `pooler:dot`, `mean:cosine`, `unixcoder`; empty for
    /// the default of the model's directory.
    pub options: String,
    /// Number of first layers to keep of the model; 0 for all.
    pub layers: usize,
    pub code_vectors: CodeVectors,
    /// Factor of similarities, 1 / temperature.
    pub scale: f64,
    /// Directions of the contrastive loss: from queries to codes, or also back.
    pub directions: Directions,
    /// Treatment of other codes in the batch that also answer a query, because they have the same query or the same
    /// text.
    pub other_positives: OtherPositives,
    /// Number of codes per query, judged as not answering it, that are added to the batch.
    pub hard_negatives: usize,
    /// Number of other codes of the batch that are negatives of each query, with `coclr` and its variants; 0 for
    /// all. Batches are shuffled, so these are random.
    pub batch_negatives: usize,
    /// Number of codes of other queries that are drawn once for each positive pair and labeled 0; for objectives
    /// with labels.
    pub random_negatives: usize,
    /// Margin of the objective `margin`.
    pub margin: f64,
    /// Numbers of first columns that are also trained as vectors of their own; empty to train only all columns.
    pub matryoshka: Vec<usize>,
    /// Weight of the teacher's loss, for objectives that have one; the rest is `info-nce`.
    pub teacher_share: f64,
    /// Temperature of the teacher's distribution, and of the student's in this comparison. The log-odds of a
    /// cross-encoder are divided by `scale` first, to make them comparable with cosines.
    pub teacher_temperature: f64,
    /// Rewriting of queries: a copy of each positive pair is added, or takes part in the loss for `coclr-paper`.
    pub rewrite: Rewrite,
    pub query_form: Form,
    pub code_form: Form,
    /// If true, a run of white space is read as one space.
    pub collapse: bool,
    /// Maximum number of tokens of a query, including special ones; for `cross-entropy`, of the first text,
    /// excluding them.
    pub max_query_tokens: usize,
    /// Maximum number of tokens of a code, including special ones; for `cross-entropy`, of both texts.
    pub max_code_tokens: usize,
    /// Number of pairs whose codes are each other's negatives.
    pub batch: usize,
    pub batches: Batches,
    /// Number of texts that go through the encoder at once, 0 for the whole batch. Smaller values need less memory
    /// and more time; the loss is the same, except for dropout (Gao et al., 2021).
    pub chunk: usize,
    /// Number of batches per optimizer step.
    pub accumulate: usize,
    /// Number of times that each pair is seen.
    pub epochs: usize,
    /// Step size.
    pub rate: f64,
    /// Number of steps over which the step size rises from 0; a share of all steps if it is less than 1.
    pub warm_up: f64,
    pub decay: Decay,
    pub optimizer: AdamW,
    /// Maximum norm of the gradient; 0 for no limit.
    pub clip: f64,
    /// Decay of an exponential moving average of the weights (EMA), lower in the first steps: the average is
    /// measured and written. 0 to use the weights themselves.
    pub average_decay: f64,
    /// Dropout rate inside the encoder and the classifier.
    pub dropout: f32,
    /// Share of the queries held out, unless held-out pairs are given.
    pub held_out: f64,
    /// Maximum number of training pairs to hold out; held-out pairs that are given are all measured.
    pub max_held_out: usize,
    pub select: Select,
    /// Number of epochs without improvement after which training ends; 0 for never.
    pub patience: usize,
    /// Number of steps between two checkpoints, in addition to those after each epoch; 0 for none.
    pub checkpoint_steps: u64,
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            objective: Objective::InfoNce,
            options: String::new(),
            layers: 0,
            code_vectors: CodeVectors::Own,
            scale: 20.0,
            directions: Directions::One,
            other_positives: OtherPositives::Ignored,
            hard_negatives: 0,
            batch_negatives: 0,
            random_negatives: 0,
            margin: 0.2,
            matryoshka: Vec::new(),
            teacher_share: 1.0,
            teacher_temperature: 0.05,
            rewrite: Rewrite::None,
            query_form: Form::Text,
            code_form: Form::Text,
            collapse: false,
            max_query_tokens: 64,
            max_code_tokens: 256,
            batch: 32,
            batches: Batches::Random,
            chunk: 0,
            accumulate: 1,
            epochs: 1,
            rate: 2e-5,
            warm_up: 0.1,
            decay: Decay::Linear,
            optimizer: AdamW::default(),
            clip: 1.0,
            average_decay: 0.0,
            dropout: 0.1,
            held_out: 0.05,
            max_held_out: 1000,
            select: Select::Mrr,
            patience: 0,
            checkpoint_steps: 500,
            seed: 1,
        }
    }
}

impl Settings {
    /// Returns whether training needs another model's vectors.
    pub fn needs_teacher(&self) -> bool {
        self.objective.distills() || self.code_vectors == CodeVectors::Teacher
    }

    /// Checks that the values are valid together.
    ///
    /// # Errors
    /// Names the first invalid value.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |problem: String| Err(TrainError::Settings(problem));
        let positive = [
            ("scale", self.scale),
            ("rate", self.rate),
            ("teacher_temperature", self.teacher_temperature),
            ("optimizer.epsilon", self.optimizer.epsilon),
        ];
        if let Some((name, value)) =
            positive.into_iter().find(|(_, value)| !(*value > 0.0 && value.is_finite()))
        {
            return bad(format!("{name}: expected more than 0, found {value}"));
        }
        let not_negative = [
            ("warm_up", self.warm_up),
            ("clip", self.clip),
            ("margin", self.margin),
            ("optimizer.weight_decay", self.optimizer.weight_decay),
        ];
        if let Some((name, value)) =
            not_negative.into_iter().find(|(_, value)| !(*value >= 0.0 && value.is_finite()))
        {
            return bad(format!("{name}: expected 0 or more, found {value}"));
        }
        let below_one = [
            ("dropout", f64::from(self.dropout)),
            ("held_out", self.held_out),
            ("average_decay", self.average_decay),
            ("optimizer.beta1", self.optimizer.beta1),
            ("optimizer.beta2", self.optimizer.beta2),
        ];
        if let Some((name, value)) = below_one.into_iter().find(|(_, value)| !(0.0..1.0).contains(value)) {
            return bad(format!("{name}: expected 0 or more and less than 1, found {value}"));
        }
        if !(0.0..=1.0).contains(&self.teacher_share) {
            return bad(format!("teacher_share: expected a share in 0..=1, found {}", self.teacher_share));
        }
        let least = if self.objective.kind() == Kind::Classifier { 1 } else { 2 };
        for (name, value, range) in [
            ("layers", self.layers, 0..=1_000),
            ("hard_negatives", self.hard_negatives, 0..=10_000),
            ("batch_negatives", self.batch_negatives, 0..=1_000_000),
            ("random_negatives", self.random_negatives, 0..=10_000),
            ("max_query_tokens", self.max_query_tokens, 1..=1_000_000),
            ("max_code_tokens", self.max_code_tokens, 1..=1_000_000),
            ("batch", self.batch, least..=1_000_000),
            ("accumulate", self.accumulate, 1..=1_000_000),
            ("epochs", self.epochs, 1..=1_000_000),
        ] {
            if !range.contains(&value) {
                return bad(format!("{name}: expected {} to {}, found {value}", range.start(), range.end()));
            }
        }
        if self.select == Select::Accuracy && self.objective.kind() == Kind::Encoder {
            return bad("select: accuracy needs an objective with labels; expected mrr or last".to_owned());
        }
        if !self.matryoshka.is_empty() && self.objective.kind() != Kind::Encoder {
            return bad("matryoshka: only objectives that train vectors support it".to_owned());
        }
        if self.rewrite != Rewrite::None && self.objective.kind() != Kind::Matcher {
            return bad("rewrite: only siamese, coclr, coclr-online and coclr-paper support it".to_owned());
        }
        let is_coclr =
            matches!(self.objective, Objective::Coclr | Objective::CoclrOnline | Objective::CoclrPaper);
        if self.batch_negatives > 0 && !is_coclr {
            return bad("batch_negatives: only coclr, coclr-online and coclr-paper support it".to_owned());
        }
        if self.code_vectors == CodeVectors::Teacher && self.objective != Objective::InfoNce {
            return bad("code_vectors: only info-nce can keep a teacher's vectors for codes".to_owned());
        }
        if self.random_negatives > 0 && !self.objective.uses_labels() {
            return bad(
                "random_negatives: only objectives with labels support it; for others, a batch provides \
                 negatives"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
