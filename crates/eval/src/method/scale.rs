//! Scale of a method's scores.

/// The scale of scores: it decides above which score a pair matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Probabilities, or verdicts from 0 to 1.
    Probability,
    /// Logarithms of odds, which are 0 for a probability of one half.
    LogOdds,
    /// Cosines, and scores without bounds. No paper gives a threshold for them; it is that of probabilities.
    Similarity,
}

impl Scale {
    /// The score above which a pair is predicted to match, if there are no pairs to choose another one.
    #[must_use]
    pub const fn threshold(self) -> f64 {
        match self {
            Self::Probability | Self::Similarity => 0.5,
            Self::LogOdds => 0.0,
        }
    }
}
