//! Has no code: the manifest gives each dependency one set of features, so that it is compiled once.
