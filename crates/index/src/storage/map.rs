//! Maps of the files of an index, which stay usable when a file is overwritten below them.
//!
//! A published file is only removed or replaced as a whole, which leaves a map of it intact. Another program may still
//! write into it, such as one that copies a backup over a cache. Reading a page that was cut off raises SIGBUS, which
//! would end the process: a handler maps an empty page in its place. Since the bytes read meanwhile may be arbitrary,
//! readers ask for what was [`damaged_since`], and discard what they read of that. Other damage is [reported](report)
//! here too, so that one query covers both.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use memmap2::{Mmap, MmapOptions};
use quarry_walk::Stamp;
use stable_deref_trait::StableDeref;

/// Milliseconds between two comparisons of the mapped files with their state when they were mapped.
const COMPARE_MS: u64 = 1000;

/// A mapped file of an index. Its clones share the map.
#[derive(Clone)]
pub(crate) struct Map(Arc<Mapping>);

struct Mapping {
    bytes: Mmap,
    slot: &'static Slot,
}

impl Map {
    /// Maps the first `length` bytes of the file at `path`.
    ///
    /// # Errors
    /// When they cannot be mapped.
    #[allow(unsafe_code, reason = "a map is unsafe because others can change the file below it")]
    pub fn new(file: &File, path: &Path, length: usize) -> io::Result<Self> {
        bus_error::handle();
        let mapped = Some((path.into(), Stamp::from_metadata(&file.metadata()?)));
        // SAFETY: this program writes a file before the manifest names it, and never again. If another program does,
        // the bytes of the map change or become zeros, which all readers of these plain records cope with.
        let bytes = unsafe { MmapOptions::new().len(length).map(file)? };
        // Not in one expression, which would hold the lock.
        let free = registry().free.pop();
        let slot = free.unwrap_or_else(Slot::append);
        *slot.mapped() = mapped;
        slot.is_cut.store(false, Ordering::Release);
        let first = bytes.as_ptr() as usize;
        slot.end.store(first + length, Ordering::Release);
        slot.start.store(first, Ordering::Release);
        Ok(Self(Arc::new(Mapping { bytes, slot })))
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

#[allow(unsafe_code, reason = "a marker that memmap2's type has too")]
// SAFETY: moving a map does not move its bytes.
unsafe impl StableDeref for Map {}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.slot.record_overwrite();
        self.slot.start.store(usize::MAX, Ordering::Release);
        self.slot.end.store(0, Ordering::Release);
        *self.slot.mapped() = None;
        registry().free.push(self.slot);
    }
}

/// The current point in time, for [`damaged_since`].
pub(crate) fn now() -> usize {
    compare();
    lost().reports.len()
}

/// The files that were overwritten, and the files and directories that were reported, since a point in time, as far as
/// is known.
pub(crate) fn damaged_since(since: usize) -> Vec<Box<Path>> {
    compare();
    lost().reports[since..].to_vec()
}

/// Reports that the content of a file or directory of an index is not the one written.
pub(crate) fn report(path: &Path) {
    let mut lost = lost();
    lost.reports.push(path.into());
    lost.suspects.insert(path.into());
}

/// Returns true if anything below the directory of an index was lost since it was last [cleared](clear).
pub(crate) fn is_suspect(directory: &Path) -> bool {
    lost().suspects.iter().any(|path| path.starts_with(directory))
}

/// Forgets losses below the directory of an index, all of which has been verified or replaced since.
pub(crate) fn clear(directory: &Path) {
    lost().suspects.retain(|path| !path.starts_with(directory));
}

/// Compares the files of all maps with their mapped state, unless that was just done and nothing was cut off.
fn compare() {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    let now = BEGINNING.get_or_init(Instant::now).elapsed().as_millis() as u64;
    if now >= NEXT_MS.load(Ordering::Relaxed) || IS_ANY_CUT.swap(false, Ordering::AcqRel) {
        NEXT_MS.store(now + COMPARE_MS, Ordering::Relaxed);
        Slot::all().for_each(Slot::record_overwrite);
    }
}

/// Makes the next query compare all files.
pub(crate) fn compare_next() {
    NEXT_MS.store(0, Ordering::Relaxed);
}

/// Time of the next comparison of the files.
static NEXT_MS: AtomicU64 = AtomicU64::new(0);

/// Set by the signal handler.
static IS_ANY_CUT: AtomicBool = AtomicBool::new(false);

/// Files and directories whose content is not the one written.
struct DamageReports {
    /// In the order of detection.
    reports: Vec<Box<Path>>,
    /// Paths that the next opening of their index must verify.
    suspects: BTreeSet<Box<Path>>,
}

fn lost() -> MutexGuard<'static, DamageReports> {
    static LOST: Mutex<DamageReports> =
        Mutex::new(DamageReports { reports: Vec::new(), suspects: BTreeSet::new() });
    LOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Range of a map, in a list that a signal handler can walk: its elements are never removed, but reused.
struct Slot {
    /// Address of the first byte; the highest one if there is no map here.
    start: AtomicUsize,
    end: AtomicUsize,
    /// True if a part of the file was cut off.
    is_cut: AtomicBool,
    /// The mapped file and its state when it was mapped.
    mapped: Mutex<Option<(Box<Path>, Stamp)>>,
    next: OnceLock<&'static Self>,
}

static FIRST: OnceLock<&'static Slot> = OnceLock::new();

struct Registry {
    /// Slots without a map.
    free: Vec<&'static Slot>,
    last: Option<&'static Slot>,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: Mutex<Registry> = Mutex::new(Registry { free: Vec::new(), last: None });
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    fn append() -> &'static Self {
        let slot = Self {
            start: AtomicUsize::new(usize::MAX),
            end: AtomicUsize::new(0),
            is_cut: AtomicBool::new(false),
            mapped: Mutex::default(),
            next: OnceLock::new(),
        };
        let slot: &'static Self = Box::leak(Box::new(slot));
        let before = registry().last.replace(slot);
        // Each element is the last one once.
        let _ = before.map_or(&FIRST, |before| &before.next).set(slot);
        slot
    }

    fn all() -> impl Iterator<Item = &'static Self> {
        std::iter::successors(FIRST.get().copied(), |slot| slot.next.get().copied())
    }

    fn mapped(&self) -> MutexGuard<'_, Option<(Box<Path>, Stamp)>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that its file was overwritten, if it was. A file that was removed or replaced stays unchanged in a map.
    fn record_overwrite(&self) {
        let mut mapped = self.mapped();
        let Some((path, before)) = &mut *mapped else { return };
        let now = fs::symlink_metadata(&*path).map_or(*before, |now| Stamp::from_metadata(&now));
        let is_changed =
            now.inode == before.inode && (now.bytes, now.modified_ns) != (before.bytes, before.modified_ns);
        if self.is_cut.swap(false, Ordering::AcqRel) || is_changed {
            if is_changed {
                *before = now;
            }
            report(path);
        }
    }

    /// Returns true if an address is in a map. Async-signal-safe.
    fn contains(&self, address: usize) -> bool {
        self.start.load(Ordering::Acquire) <= address && address < self.end.load(Ordering::Acquire)
    }
}

#[cfg(unix)]
#[allow(unsafe_code, reason = "a signal handler")]
mod bus_error {
    use std::mem;
    use std::ptr;
    use std::sync::Once;
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering;

    use super::{IS_ANY_CUT, Slot};

    /// Former action of the signal.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
    static PAGE_BYTES: OnceLock<usize> = OnceLock::new();

    /// Handles bus errors from now on.
    pub fn handle() {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            // SAFETY: `sysconf` has no preconditions.
            let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            let Ok(page_bytes) = usize::try_from(page_bytes) else { return };
            let _ = PAGE_BYTES.set(page_bytes);
            // SAFETY: all zeros are a valid value of this plain structure.
            let (mut action, mut before): (libc::sigaction, libc::sigaction) =
                unsafe { (mem::zeroed(), mem::zeroed()) };
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // SAFETY: both point to structures that live through the call, and the handler has the type that the flags
            // ask for.
            if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) } == 0 {
                let _ = BEFORE.set(before);
            }
        });
    }

    /// Calls only async-signal-safe functions: atomic loads and system calls.
    extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the system passes a valid pointer to a handler with `SA_SIGINFO`, and this signal has an address.
        let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
        // Signals that a process sends have codes that are not positive, and no address.
        let is_fault = code > 0;
        if let Some(page_bytes) = PAGE_BYTES.get().copied().filter(|_| is_fault)
            && let Some(slot) = Slot::all().find(|slot| slot.contains(address))
        {
            slot.is_cut.store(true, Ordering::Release);
            IS_ANY_CUT.store(true, Ordering::Release);
            let page = (address & !(page_bytes - 1)) as *mut libc::c_void;
            let (protection, flags) =
                (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
            // SAFETY: the page belongs to one of our maps, which nobody unmaps while it is read, and which nobody
            // writes to. Its content could not be read any longer.
            let made = unsafe { libc::mmap(page, page_bytes, protection, flags, -1, 0) };
            if made != libc::MAP_FAILED {
                return;
            }
        }
        // Not one of our maps: the previous handler receives the signal again, at once if a process sent it, otherwise
        // when the instruction is repeated.
        let before = BEFORE.get().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: a valid structure, or none, in which case nothing is changed; raising has no preconditions.
        unsafe {
            if before.is_null() {
                libc::signal(signal, libc::SIG_DFL);
            } else {
                libc::sigaction(signal, before, ptr::null_mut());
            }
            if !is_fault {
                libc::raise(signal);
            }
        }
    }
}

/// On other systems, a mapped file cannot be cut off.
#[cfg(not(unix))]
mod bus_error {
    pub fn handle() {}
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    /// Maps a file of some pages, changes it, and returns the byte that the map then has at its last page, and true if
    /// the change was noticed.
    fn read_after(change: impl FnOnce(&Path)) -> (u8, bool) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, vec![7; 1 << 16]).unwrap();
        let map = Map::new(&File::open(&path).unwrap(), &path, 1 << 16).unwrap();
        let before = now();
        assert_eq!(map[0], 7);
        change(&path);
        let read = map[(1 << 16) - 1];
        map.0.slot.record_overwrite();
        (read, damaged_since(before).iter().any(|changed| **changed == *path))
    }

    #[test]
    fn maps_of_overwritten_files_can_be_read() {
        assert_eq!(read_after(|_| {}), (7, false));
        assert_eq!(read_after(|path| fs::remove_file(path).unwrap()), (7, false));
        let replace = |path: &Path| {
            fs::write(path.with_extension("new"), "other").unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        };
        assert_eq!(read_after(replace), (7, false));
        let cut = |path: &Path| File::options().write(true).open(path).unwrap().set_len(9).unwrap();
        assert_eq!(read_after(cut), (0, true));
        assert_eq!(read_after(|path| fs::write(path, vec![8; 1 << 16]).unwrap()), (8, true));
        assert_eq!(read_after(|path| fs::write(path, "").unwrap()), (0, true));
    }

    #[test]
    fn places_are_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "abc").unwrap();
        let file = File::open(&path).unwrap();
        for _ in 0..1000 {
            assert_eq!(&*Map::new(&file, &path, 3).unwrap(), b"abc");
        }
        // Other tests map files at the same time.
        assert!(Slot::all().count() < 500, "{}", Slot::all().count());
    }
}
