//! Embeds units for the re-ranker while a process that stays waits for something else.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use quarry_index::{Index, Precomputation, PrecomputedCounts};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::output;

/// Time of embedding units after which it is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Time until the next try while the computer runs on battery, or another process embeds the units.
const RETRY: Duration = Duration::from_secs(30);

/// A thread that embeds units ahead of searches, at the lowest priority, and not on battery. It ends with the process: at most
/// a minute of work is lost, and the next process continues it.
#[derive(Clone)]
pub struct Background(Sender<Precomputation>);

impl Background {
    /// Starts a thread that waits for an index; `embedded` is called from there when more of its units are embedded.
    pub fn start(embedded: impl Fn() + Send + 'static) -> Self {
        let (sender, received) = mpsc::channel();
        thread::spawn(move || embed_all(&received, &embedded));
        Self(sender)
    }

    /// Has the units of an index embedded that was just opened, after those of the indexes before.
    pub fn embed(&self, index: &Index) {
        if let Some(work) = index.precomputation() {
            // The thread ends only with the process.
            let _ = self.0.send(work);
        }
    }
}

/// Indexes whose units are to be embedded, by their directories, with the number of units that were missing last.
type OpenIndexes = BTreeMap<Vec<PathBuf>, (Precomputation, Option<usize>)>;

/// Remaining work on an index.
#[derive(PartialEq, Eq)]
enum RemainingWork {
    Nothing,
    Units,
    /// Units that another process embeds.
    Elsewhere,
}

fn embed_all(received: &Receiver<Precomputation>, on_embedded: &dyn Fn()) {
    // One thread, in a pool of its own: searches go on.
    let pool = ThreadPoolBuilder::new().num_threads(1).start_handler(|_| lower_priority()).build().ok();
    let mut open = OpenIndexes::new();
    loop {
        let mut goes_on = false;
        if !is_paused() {
            open.retain(|_, (work, missing)| {
                let rest = embed(work, missing, pool.as_ref(), on_embedded);
                goes_on |= rest == RemainingWork::Units;
                rest != RemainingWork::Nothing
            });
        }
        let patience = match open.is_empty() {
            true => Duration::MAX,
            false if goes_on => Duration::ZERO,
            false => RETRY,
        };
        let first = match received.recv_timeout(patience) {
            Ok(work) => Some(work),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for work in first.into_iter().chain(received.try_iter()) {
            let missing = open.remove(&work.directories()).and_then(|(_, missing)| missing);
            open.insert(work.directories(), (work, missing));
        }
    }
}

/// Embeds units for up to [`REPORT_INTERVAL`]; `missing` is their number the last time.
fn embed(
    work: &Precomputation,
    missing: &mut Option<usize>,
    pool: Option<&ThreadPool>,
    on_embedded: &dyn Fn(),
) -> RemainingWork {
    let begun = Instant::now();
    let stop = || begun.elapsed() > REPORT_INTERVAL || is_paused();
    let embed = || work.embed_in_background(&stop);
    match pool.map_or_else(embed, |pool| pool.install(embed)) {
        Ok(found) => {
            let last = missing.replace(found.missing);
            if found.embedded > 0 || last.is_some_and(|last| last != found.missing) {
                on_embedded();
            }
            match found {
                PrecomputedCounts { is_elsewhere: true, .. } => RemainingWork::Elsewhere,
                // Those of changed files are missing until the index is opened again.
                PrecomputedCounts { embedded: 0, .. } if !is_paused() => RemainingWork::Nothing,
                PrecomputedCounts { missing: 0, .. } => RemainingWork::Nothing,
                _ => RemainingWork::Units,
            }
        }
        Err(error) => {
            // Optional work fails silently.
            if work.is_required() {
                output::warn_once("no vectors for re-ranking were computed; searches compute them", &error);
            }
            RemainingWork::Nothing
        }
    }
}

/// Lets all other threads and processes of the machine run first.
fn lower_priority() {
    // On other systems the priority is that of the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Directory in which Linux describes the sources of power.
const POWER_SUPPLIES: &str = "/sys/class/power_supply";

/// Returns whether units are embedded later, since the computer runs on battery.
pub fn is_paused() -> bool {
    is_on_battery(Path::new(POWER_SUPPLIES))
}

/// Returns whether a battery of the computer is being discharged; false if that is unknown.
fn is_on_battery(supplies: &Path) -> bool {
    fs::read_dir(supplies).into_iter().flatten().flatten().any(|supply| {
        let is = |name: &str, value: &str| {
            fs::read_to_string(supply.path().join(name)).is_ok_and(|found| found.trim() == value)
        };
        // The battery of a mouse has the scope of a device.
        is("type", "Battery") && is("status", "Discharging") && !is("scope", "Device")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computer_is_on_battery_while_its_own_is_discharged() {
        let supplies = tempfile::tempdir().unwrap();
        let write = |supply: &str, files: &[(&str, &str)]| {
            let directory = supplies.path().join(supply);
            fs::create_dir_all(&directory).unwrap();
            for (name, value) in files {
                fs::write(directory.join(name), format!("{value}\n")).unwrap();
            }
        };
        assert!(!is_on_battery(&supplies.path().join("missing")));
        assert!(!is_on_battery(supplies.path()));
        write("AC", &[("type", "Mains"), ("online", "0")]);
        write("mouse", &[("type", "Battery"), ("status", "Discharging"), ("scope", "Device")]);
        assert!(!is_on_battery(supplies.path()));
        write("BAT0", &[("type", "Battery"), ("status", "Discharging")]);
        assert!(is_on_battery(supplies.path()));
        write("BAT0", &[("status", "Charging")]);
        assert!(!is_on_battery(supplies.path()));
    }
}
