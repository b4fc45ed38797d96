//! Makes cargo unify the features of dependencies of build scripts, too.

fn main() {}
