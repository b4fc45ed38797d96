//! A tar or zip archive. It is untrusted: nothing is written to disk, and violations of the limits are rejected.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use flate2::read::DeflateDecoder;
use flate2::{Crc, CrcReader};
use quarry_files::open_regular;
use quarry_walk::{WalkOptions, max_bytes_of_member};
use tar::EntryType;
use xxhash_rust::xxh3::xxh3_128;
use zip::{CompressionMethod, ZipArchive};

use super::files::{Batches, Reading};
use super::licenses::Licenses;
use super::{Content, Counts, LINKS, Stamped, TakeRecord, wrong};
use crate::error::BuildError;
use crate::plan::SourcePlan;
use crate::sources::license::{MAX_TEXT_BYTES, is_license_file};
use crate::step::hash_file;

/// Maximum number of files and directories of an archive.
const MAX_ENTRIES: usize = 5_000_000;

/// Maximum length of a path in bytes, and of tar headers that contain longer ones.
const MAX_PATH_BYTES: u64 = 64 << 10;

/// Maximum ratio of unpacked to packed size, and maximum unpacked size in bytes. Source code rarely compresses to
/// less than a tenth.
const MAX_RATIO: u64 = 100;
const ALWAYS_ALLOWED_BYTES: u64 = 64 << 20;

/// Number of license texts in memory at a time.
const MAX_LICENSES: usize = 100;

pub(crate) struct Archive<'p> {
    reading: Reading<'p>,
    hash: String,
    stamp: Stamped,
    /// The common top-level directory with a trailing `/`; empty if there is none.
    top: String,
    max_unpacked: u64,
}

enum Unpacked {
    /// Not a file: a link, a device, or the like.
    Link,
    Skipped,
    Bytes(Vec<u8>),
    TooLong,
    /// Encrypted, or compressed with an unsupported method.
    Unreadable,
}

enum Refused {
    Read(io::Error),
    Odd(String),
    Build(BuildError),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<zip::result::ZipError> for Refused {
    fn from(error: zip::result::ZipError) -> Self {
        Self::Odd(format!("expected a zip archive: {error}"))
    }
}

/// The size limit of a requested file by its path; `None` for files that are not requested.
type SizeLimit<'w> = dyn Fn(&str) -> Option<u64> + 'w;
/// Receives the path of an entry and what is in it.
type TakeEntry<'t> = dyn FnMut(String, Unpacked) -> Result<(), Refused> + 't;

impl<'p> Archive<'p> {
    pub(crate) fn open(plan: &'p SourcePlan, tests: bool, is_hashed: bool) -> Result<Self, BuildError> {
        open_regular(&plan.path).map_err(BuildError::read(&plan.path))?;
        let hash = if is_hashed { hash_file(&plan.path)? } else { String::new() };
        let stamp = Stamped::read(&plan.path)?;
        let packed = std::fs::metadata(&plan.path).map_err(BuildError::read(&plan.path))?.len();
        let max_unpacked = packed.saturating_mul(MAX_RATIO).max(ALWAYS_ALLOWED_BYTES);
        let options = WalkOptions::default();
        let (mut tops, mut n_wanted, mut texts) = (BTreeSet::new(), 0, BTreeMap::new());
        let wanted = |path: &str| is_license_file(path).then_some(MAX_TEXT_BYTES);
        let commit = for_each_entry(&plan.path, max_unpacked, &wanted, &mut |path, content| {
            if matches!(content, Unpacked::Link) {
                return Ok(());
            }
            n_wanted += usize::from(max_bytes_of_member(&path, &options).is_some());
            // Two suffice to know that there is no common one.
            if tops.len() < 2 {
                tops.insert(path.split_once('/').map(|(top, _)| top.to_owned()));
            }
            if let Unpacked::Bytes(bytes) = content
                && texts.len() < MAX_LICENSES
            {
                texts.insert(path, bytes);
            }
            Ok(())
        })
        .map_err(|refused| described(plan, refused))?;
        if n_wanted == 0 {
            return Err(wrong(plan, "expected files in a known language in the archive, found none"));
        }
        let top = match tops.pop_first() {
            Some(Some(top)) if tops.is_empty() => format!("{top}/"),
            _ => String::new(),
        };
        let texts: BTreeMap<String, Vec<u8>> = texts
            .into_iter()
            .map(|(path, bytes)| (path.strip_prefix(&top).unwrap_or(&path).to_owned(), bytes))
            .collect();
        let paths = texts.keys().cloned().collect();
        let licenses = Licenses::new(plan.license.as_deref(), paths, &mut |path, _| texts.get(path).cloned());
        Ok(Self { reading: Reading { plan, commit, licenses, tests }, hash, stamp, top, max_unpacked })
    }
}

fn described(plan: &SourcePlan, refused: Refused) -> BuildError {
    match refused {
        Refused::Build(error) => error,
        Refused::Odd(problem) => wrong(plan, problem),
        Refused::Read(error) if error.kind() == io::ErrorKind::FileTooLarge => wrong(plan, error),
        Refused::Read(error) => {
            wrong(plan, format!("the archive cannot be read to its end: {error}; download it again"))
        }
    }
}

impl Content for Archive<'_> {
    fn hash(&self) -> &str {
        &self.hash
    }

    fn commit(&self) -> Option<&str> {
        self.reading.commit.as_deref()
    }

    fn read(&self, each: &mut TakeRecord<'_>) -> Result<Counts, BuildError> {
        let options = WalkOptions::default();
        let mut batches = Batches::new(self.reading.clone(), options, each);
        let below = |path: &str| path.strip_prefix(&self.top).unwrap_or(path).to_owned();
        let mut n_links = 0;
        let plan = self.reading.plan;
        let wanted = |path: &str| max_bytes_of_member(&below(path), &options);
        for_each_entry(&plan.path, self.max_unpacked, &wanted, &mut |path, content| {
            match content {
                Unpacked::Link => n_links += 1,
                Unpacked::Skipped => batches.tally.skip(1),
                Unpacked::TooLong | Unpacked::Unreadable => batches.add_unreadable(),
                Unpacked::Bytes(bytes) => batches.add(below(&path), bytes).map_err(Refused::Build)?,
            }
            Ok(())
        })
        .map_err(|refused| described(plan, refused))?;
        let mut counts = batches.finish()?;
        counts.insert(LINKS.into(), n_links);
        self.stamp.check(plan)?;
        Ok(counts)
    }
}

/// Calls `each` with all entries, including the contents of requested files; returns the commit that git recorded
/// when it created the archive.
fn for_each_entry(
    path: &Path,
    max_unpacked: u64,
    wanted: &SizeLimit<'_>,
    each: &mut TakeEntry<'_>,
) -> Result<Option<String>, Refused> {
    let mut start = Vec::new();
    open_regular(path)?.take(4).read_to_end(&mut start)?;
    // Hashes of the paths so far.
    let mut paths = HashSet::new();
    let mut distinct = |path: String, content: Unpacked| {
        if !paths.insert(xxh3_128(path.as_bytes())) {
            let path: String = path.chars().take(100).collect();
            return Err(twice(&format!("{path:?}")));
        }
        if paths.len() > MAX_ENTRIES {
            return Err(Refused::Odd(format!("the archive has more than {MAX_ENTRIES} files")));
        }
        each(path, content)
    };
    let file = BufReader::new(open_regular(path)?);
    let bounded = |reader| Bounded { reader, max_unpacked, left: max_unpacked };
    match start[..] {
        [b'P', b'K', 3 | 5, 4 | 6] => {
            read_zip(file, open_regular(path)?, max_unpacked, wanted, &mut distinct)
        }
        [0x1f, 0x8b, ..] => read_tar(bounded(Box::new(MultiGzDecoder::new(file))), wanted, &mut distinct),
        _ => read_tar(bounded(Box::new(file)), wanted, &mut distinct),
    }
}

fn read_zip(
    file: BufReader<File>,
    mut headers: File,
    max_unpacked: u64,
    wanted: &SizeLimit<'_>,
    each: &mut TakeEntry<'_>,
) -> Result<Option<String>, Refused> {
    const LINK: u32 = 0o120_000;
    const KIND: u32 = 0o170_000;
    let mut archive = ZipArchive::new(file)?;
    if archive.has_duplicate_names() {
        return Err(twice("a path"));
    }
    let commit = commit_in(&String::from_utf8_lossy(archive.comment()));
    let mut left = max_unpacked;
    for number in 0..archive.len() {
        // Decompressed here, not by the crate, to save dependencies.
        let entry = archive.by_index_raw(number)?;
        let path = checked_path(String::from_utf8_lossy(entry.name_raw()).into_owned())?;
        if !is_as_listed(&mut headers, entry.header_start(), entry.name_raw(), entry.encrypted())? {
            return Err(Refused::Odd(format!(
                "{path:?} is listed at the end of the archive, but its own header gives another path; download the \
                 archive again"
            )));
        }
        if entry.is_dir() {
            continue;
        }
        if entry.unix_mode().is_some_and(|mode| mode & KIND == LINK) {
            each(path, Unpacked::Link)?;
            continue;
        }
        let method = entry.compression();
        let is_known = matches!(method, CompressionMethod::STORE | CompressionMethod::DEFLATE);
        let content = match wanted(&path) {
            None => Unpacked::Skipped,
            Some(_) if entry.encrypted() || !is_known => Unpacked::Unreadable,
            // The size stated in the archive may be false: actual bytes are counted.
            Some(limit) => {
                let expected = entry.crc32();
                let unpacked: Box<dyn Read> = match method {
                    CompressionMethod::STORE => Box::new(entry),
                    _ => Box::new(DeflateDecoder::new(entry)),
                };
                let content = read_up_to(CrcReader::new(unpacked), limit, |crc| crc.sum() == expected)
                    .map_err(|error| {
                        Refused::Odd(format!(
                            "{path}: cannot be unpacked: {error}; download the archive again"
                        ))
                    })?;
                let n_bytes = match &content {
                    Unpacked::Bytes(bytes) => bytes.len() as u64,
                    _ => limit,
                };
                left = left.checked_sub(n_bytes).ok_or_else(|| Refused::Odd(bomb(max_unpacked)))?;
                content
            }
        };
        each(path, content)?;
    }
    Ok(commit)
}

/// Returns whether the header before an entry of a zip archive agrees with the list of entries at the end, of which no
/// checksum exists.
fn is_as_listed(headers: &mut File, start: u64, path: &[u8], is_encrypted: bool) -> io::Result<bool> {
    const LENGTH: usize = 30;
    // The path in UTF-8, after five bytes, where the header's own is in another encoding.
    const UNICODE_PATH: u16 = 0x7075;
    let mut header = [0; LENGTH];
    headers.seek(SeekFrom::Start(start))?;
    headers.read_exact(&mut header)?;
    let number = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let mut own_path = vec![0; usize::from(number(26))];
    headers.read_exact(&mut own_path)?;
    let mut extras = vec![0; usize::from(number(28))];
    headers.read_exact(&mut extras)?;
    let mut rest = &extras[..];
    let mut unicode_path = None;
    while let Some(([a, b, c, d], fields)) = rest.split_first_chunk() {
        let Some((field, others)) = fields.split_at_checked(u16::from_le_bytes([*c, *d]).into()) else {
            break;
        };
        if u16::from_le_bytes([*a, *b]) == UNICODE_PATH {
            unicode_path = field.get(5..);
        }
        rest = others;
    }
    let has_path = own_path == path || unicode_path == Some(path);
    Ok(has_path && (number(6) & 1 == 1) == is_encrypted)
}

/// Reads up to a limit, and verifies the checksum.
fn read_up_to(
    mut reader: CrcReader<Box<dyn Read + '_>>,
    limit: u64,
    is_right: impl Fn(&Crc) -> bool,
) -> io::Result<Unpacked> {
    let mut bytes = Vec::new();
    reader.by_ref().take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Ok(Unpacked::TooLong);
    }
    if !is_right(reader.crc()) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum is another"));
    }
    Ok(Unpacked::Bytes(bytes))
}

fn read_tar(
    reader: impl Read,
    wanted: &SizeLimit<'_>,
    each: &mut TakeEntry<'_>,
) -> Result<Option<String>, Refused> {
    let mut archive = tar::Archive::new(reader);
    let (mut commit, mut name, mut is_tar) = (None, None, false);
    // Raw: headers that contain long names are read here, up to a limit.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry.map_err(|error| match (is_tar, error.kind()) {
            // The error quotes the header, whatever is in it.
            (false, io::ErrorKind::Other) => {
                Refused::Odd("expected a tar or zip archive, found something else".to_owned())
            }
            _ => Refused::Read(error),
        })?;
        is_tar = true;
        let kind = entry.header().entry_type();
        let mut read_header = || -> Result<Vec<u8>, Refused> {
            let mut bytes = Vec::new();
            if entry.size() > MAX_PATH_BYTES {
                return Err(Refused::Odd(format!(
                    "a header in the archive is longer than {MAX_PATH_BYTES} bytes"
                )));
            }
            entry.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match kind {
            EntryType::GNULongName => {
                let bytes = read_header()?;
                name = Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned());
            }
            EntryType::XHeader => name = extension(&read_header()?, "path").or(name),
            EntryType::XGlobalHeader => {
                commit =
                    extension(&read_header()?, "comment").and_then(|comment| commit_in(&comment)).or(commit);
            }
            EntryType::GNULongLink => drop(read_header()?),
            EntryType::Regular | EntryType::Continuous => {
                let own = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                let path = checked_path(name.take().unwrap_or(own))?;
                if path.ends_with('/') {
                    continue;
                }
                let content = match wanted(&path) {
                    None => Unpacked::Skipped,
                    Some(limit) if entry.size() > limit => Unpacked::TooLong,
                    Some(_) => {
                        let mut bytes = Vec::new();
                        entry.read_to_end(&mut bytes)?;
                        if (bytes.len() as u64) < entry.size() {
                            let error = io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a file");
                            return Err(Refused::Read(error));
                        }
                        Unpacked::Bytes(bytes)
                    }
                };
                each(path, content)?;
            }
            EntryType::Directory => name = None,
            // Links, devices, pipes, and sparse files.
            _ => {
                let own = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                each(checked_path(name.take().unwrap_or(own))?, Unpacked::Link)?;
            }
        }
    }
    read_padding(archive.into_inner())?;
    Ok(commit)
}

/// Reads what follows the end of a tar archive: zeros that fill its last block. Only at the end of a compressed stream
/// is its checksum verified.
fn read_padding(mut reader: impl Read) -> Result<(), Refused> {
    let mut block = vec![0; 64 << 10];
    loop {
        match reader.read(&mut block)? {
            0 => return Ok(()),
            n_bytes if block[..n_bytes].iter().all(|byte| *byte == 0) => {}
            _ => {
                return Err(Refused::Odd(format!(
                    "expected nothing after the end of the archive, found more, such as another archive; {UNPACK}"
                )));
            }
        }
    }
}

/// The value of a key in a tar extension header.
fn extension(header: &[u8], key: &str) -> Option<String> {
    let extensions = tar::PaxExtensions::new(header).flatten();
    let found = extensions.filter(|extension| extension.key() == Ok(key)).last()?;
    Some(String::from_utf8_lossy(found.value_bytes()).into_owned())
}

fn commit_in(comment: &str) -> Option<String> {
    let comment = comment.trim();
    let is_commit = matches!(comment.len(), 40 | 64) && comment.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| comment.to_ascii_lowercase())
}

/// Checks that a path stays inside the directory where the archive would be unpacked.
fn checked_path(path: String) -> Result<String, Refused> {
    let path = path.replace('\\', "/");
    let is_outside = path.starts_with('/')
        || path.split('/').any(|part| part == "..")
        || path.as_bytes().get(1) == Some(&b':')
        || path.contains('\0');
    if is_outside {
        let path: String = path.chars().take(100).collect();
        return Err(Refused::Odd(format!(
            "the archive has the path {path:?}, which points outside it and may be malicious; use another archive"
        )));
    }
    // One spelling for each file.
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    Ok(parts.join("/") + if path.ends_with('/') { "/" } else { "" })
}

/// Remedy for a refused archive.
const UNPACK: &str = "unpack it yourself and name the directory, if you trust it";

fn bomb(max_unpacked: u64) -> String {
    format!(
        "the archive unpacks to more than {max_unpacked} bytes, {MAX_RATIO} times its length: it may be made to exhaust \
         memory; {UNPACK}"
    )
}

fn twice(found: &str) -> Refused {
    Refused::Odd(format!("expected each path once in the archive, found {found} again; {UNPACK}"))
}

/// A reader that returns an error after too many bytes.
struct Bounded {
    reader: Box<dyn Read>,
    max_unpacked: u64,
    left: u64,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_bytes = self.reader.read(buffer)?;
        let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, bomb(self.max_unpacked));
        self.left = self.left.checked_sub(n_bytes as u64).ok_or_else(too_large)?;
        Ok(n_bytes)
    }
}
