//! Everything that needs Linux: namespaces, containers, and limiting and measuring processes.

pub(crate) mod bubblewrap;
mod guard;
pub(crate) mod podman;
mod resources;
mod seccomp;
mod spawn;
mod supervise;
pub(crate) mod tree;
mod unconfined;
mod watchdog;

use crate::{Error, Isolation, Sandbox};

pub use bubblewrap::Bubblewrap;

pub(crate) fn open(isolation: Isolation) -> Result<Box<dyn Sandbox>, Error> {
    Ok(match isolation {
        Isolation::Bubblewrap => Box::new(Bubblewrap::open()?),
        Isolation::Podman { image } => Box::new(podman::Podman::open(image)?),
        Isolation::UnsafeNoSandbox => Box::new(unconfined::Unconfined),
    })
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
