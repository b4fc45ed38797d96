//! The sandbox on systems other than Linux: refuses to run anything, with the reason.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use quarry_files::cache::{CacheEntry, Pruned, Selection};

use crate::packages::{PackageError, PackageSet, PackageSource, Settings};
use crate::{Error, Isolation, Limits, MemoryBound, Outcome, Program, Sandbox};

/// Refuses even without isolation: limiting and measuring a program requires Linux too.
pub(crate) fn open(_: Isolation) -> Result<Box<dyn Sandbox>, Error> {
    Err(Error::Unsupported)
}

pub(crate) fn is_root() -> bool {
    false
}

/// Runs programs in namespaces, which this system does not have.
#[derive(Debug)]
pub enum Bubblewrap {}

impl Bubblewrap {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn open() -> Result<Self, Error> {
        Err(Error::Unsupported)
    }

    /// Means by which the memory of programs is limited.
    pub fn memory_bound(&self) -> MemoryBound {
        match *self {}
    }
}

impl Sandbox for Bubblewrap {
    fn run(&self, _: &Program, _: &Limits) -> Result<Outcome, Error> {
        match *self {}
    }
}

/// Fetches packages in a sandbox, which this system does not have.
#[derive(Debug)]
pub enum Packages {}

impl Packages {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: Settings) -> Result<Self, Error> {
        Err(Error::Unsupported)
    }

    /// Lets `stop` interrupt work.
    #[must_use]
    pub fn stopped_by(self, _: Arc<AtomicBool>) -> Self {
        self
    }
}

/// The sets of packages in a directory: none, because nothing can be fetched.
pub struct CachedPackages;

impl CachedPackages {
    /// Returns an empty list.
    ///
    /// # Errors
    /// Never.
    pub fn list(_: &Path) -> io::Result<Vec<CacheEntry>> {
        Ok(Vec::new())
    }

    /// Removes nothing.
    ///
    /// # Errors
    /// Never.
    pub fn prune(_: &Path, _: Selection, _: bool) -> io::Result<Vec<Pruned>> {
        Ok(Vec::new())
    }
}

impl PackageSource for Packages {
    fn provide(&self, _: &str, _: &[String]) -> Result<PackageSet, PackageError> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_run_and_the_reason_is_reported() {
        for isolation in
            [Isolation::Bubblewrap, Isolation::Podman { image: None }, Isolation::UnsafeNoSandbox]
        {
            let error = crate::open(isolation).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("needs Linux"), "{error}");
        }
        assert!(matches!(Bubblewrap::open(), Err(Error::Unsupported)));
    }
}
