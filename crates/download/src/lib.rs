//! Downloads files: interrupted downloads are resumed, complete ones are verified, and a file gets its final name
//! only after that.
//!
//! During the download, a file is called `NAME.part`; `NAME.part.from` records its origin and version, so that
//! parts of different versions are never joined. An operating system's lock on the first keeps out a second
//! download, and is released when its process dies.
//!
//! [`known`] verifies, copies and unpacks files whose content is known in advance.

mod error;
pub mod known;
mod part;

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use quarry_files::sha256_of;
use ureq::Agent;
use ureq::http::{Response, StatusCode, header};
use url::{Host, Url};

pub use error::{DownloadError, Failure};
use part::Part;

/// Maximum number of redirects. None may lead from `https` to another scheme.
const MAX_REDIRECTS: u32 = 10;
/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(15);
/// Maximum number of consecutive attempts with hardly any progress.
const ATTEMPTS: u32 = 3;
/// Minimum number of bytes of an attempt that counts as progress, except for the last ones.
const LEAST_BYTES: u64 = 1000;
/// Minimum speed. A server that stays below it for the duration of a stall counts as dead.
const LEAST_BYTES_PER_SECOND: u64 = 100;

/// Facts about a file that are known before its download.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    pub size: Option<u64>,
    /// The SHA-256 hash of its content, as 64 digits in lower case.
    pub sha256: Option<String>,
    /// Its maximum length in bytes, if `size` is unknown.
    pub max_size: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadOptions {
    /// Maximum time without receiving a byte.
    pub stall: Duration,
    /// Pause after the first attempt without progress; it doubles with each further one.
    pub pause: Duration,
}

impl Default for DownloadOptions {
    fn default() -> Self {
        Self { stall: Duration::from_secs(60), pause: Duration::from_secs(1) }
    }
}

/// A downloaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Downloaded {
    pub size: u64,
    /// The SHA-256 hash of its content, as 64 digits in lower case.
    pub sha256: String,
    /// Number of bytes that existed before: all, if the file was complete.
    pub kept: u64,
    /// True if its content was verified against an expected hash.
    pub is_verified: bool,
}

/// Downloads `url` to `target`, whose directory exists. A file that already exists is verified, not replaced.
/// `progress` gets the number of bytes received and, if known, the total.
///
/// # Errors
/// When the file does not exist, the server cannot be reached or stalls (`ATTEMPTS` consecutive times), the content
/// differs in length or hash from what is expected, another download of the same file is in progress, or the file
/// cannot be written. The received bytes are kept for the next try, unless the content is wrong.
pub fn download(
    url: &Url,
    target: &Path,
    expected: &Expected,
    options: &DownloadOptions,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Downloaded, DownloadError> {
    if target.symlink_metadata().is_ok() {
        return verify_existing(target, expected);
    }
    let Some(mut part) = Part::open(target, url)? else { return verify_existing(target, expected) };
    let kept = part.len();
    let agent = agent(url, options);
    let mut in_vain = 0;
    loop {
        let before = part.len();
        match attempt(&agent, url, &mut part, expected, options, progress) {
            Ok(()) => break,
            Err(Problem::Fatal(error)) => return Err(error),
            Err(Problem::Failed(failure)) => {
                let brought_some =
                    part.len() >= before + LEAST_BYTES && !matches!(failure, Failure::Slow { .. });
                in_vain = if brought_some { 0 } else { in_vain + 1 };
                if !failure.is_transient() || in_vain >= ATTEMPTS {
                    if part.len() == 0 {
                        part.discard()?;
                    }
                    return Err(DownloadError::Failed { url: url.to_string(), failure });
                }
                thread::sleep(options.pause * 2_u32.pow(in_vain.saturating_sub(1)));
            }
        }
    }
    let downloaded = Downloaded {
        size: part.len(),
        sha256: part.sha256(),
        kept: kept.min(part.len()),
        is_verified: expected.sha256.is_some(),
    };
    if let Err(failure) = compare(&downloaded, expected) {
        part.discard()?;
        return Err(DownloadError::Failed { url: url.to_string(), failure });
    }
    part.publish(target)?;
    Ok(downloaded)
}

fn verify_existing(target: &Path, expected: &Expected) -> Result<Downloaded, DownloadError> {
    let read = |source| DownloadError::Read { path: target.to_owned(), source };
    let (size, sha256) = fs::File::open(target).and_then(sha256_of).map_err(read)?;
    let found = Downloaded { size, sha256, kept: size, is_verified: expected.sha256.is_some() };
    match compare(&found, expected) {
        Ok(()) => Ok(found),
        Err(failure) => Err(DownloadError::Other { path: target.to_owned(), failure }),
    }
}

fn compare(found: &Downloaded, expected: &Expected) -> Result<(), Failure> {
    if let Some(size) = expected.size.filter(|size| *size != found.size) {
        return Err(Failure::Length { expected: size, found: found.size });
    }
    match &expected.sha256 {
        Some(sha256) if *sha256 != found.sha256 => {
            Err(Failure::Hash { expected: sha256.clone(), found: found.sha256.clone() })
        }
        _ => Ok(()),
    }
}

fn agent(url: &Url, options: &DownloadOptions) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(MAX_REDIRECTS)
        // Also applies to the targets of redirects.
        .https_only(url.scheme() == "https")
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(options.stall))
        .timeout_per_read(Some(options.stall))
        // A compressed transfer could not be resumed.
        .accept_encoding("identity")
        .user_agent(concat!("quarry/", env!("CARGO_PKG_VERSION")));
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if is_local {
        config = config.proxy(None);
    }
    config.build().into()
}

/// The reason why an attempt did not download the complete file.
enum Problem {
    Failed(Failure),
    /// An error unrelated to the server.
    Fatal(DownloadError),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<DownloadError> for Problem {
    fn from(error: DownloadError) -> Self {
        Self::Fatal(error)
    }
}

/// Requests the missing bytes and writes them, up to the end.
fn attempt(
    agent: &Agent,
    url: &Url,
    part: &mut Part,
    expected: &Expected,
    options: &DownloadOptions,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), Problem> {
    let mut request = agent.get(url.as_str());
    // A version identifier guarantees that both parts belong to the same file; without one, the hash must.
    let resumes = part.len() > 0 && (part.version().is_some() || expected.sha256.is_some());
    if resumes {
        request = request.header(header::RANGE, format!("bytes={}-", part.len()));
        if let Some(version) = part.version() {
            request = request.header(header::IF_RANGE, version);
        }
    }
    let mut response = request.call().map_err(Failure::from)?;
    let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let total = match response.status() {
        StatusCode::PARTIAL_CONTENT if resumes => {
            let range = field(header::CONTENT_RANGE).and_then(content_range);
            match range {
                Some((start, total)) if start == part.len() => total,
                _ => return Err(Failure::Answer { problem: "a different part than requested".into() }.into()),
            }
        }
        StatusCode::RANGE_NOT_SATISFIABLE if resumes => {
            let total =
                field(header::CONTENT_RANGE).and_then(|range| range.strip_prefix("bytes */")?.parse().ok());
            if total == Some(part.len()) {
                return Ok(());
            }
            part.restart(None)?;
            return Err(Failure::Answer { problem: "no such part: the file has changed".into() }.into());
        }
        // The complete file: on a first request, from a server without ranges, or for a file that has changed.
        StatusCode::OK => {
            let length = field(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
            part.restart(version(&response))?;
            length
        }
        status => return Err(Failure::Status { status: status.as_u16() }.into()),
    };
    if let (Some(expected), Some(found)) = (expected.size, total)
        && expected != found
    {
        return Err(Failure::Length { expected, found }.into());
    }
    let is_too_long = |length: u64| expected.max_size.filter(|max_size| length > *max_size);
    if let Some(max_size) = total.and_then(is_too_long) {
        return Err(Failure::TooLong { max_size }.into());
    }
    let total = total.or(expected.size);
    let mut body = response.body_mut().as_reader();
    let mut buffer = vec![0; 1 << 16];
    let (mut since, mut in_window) = (Instant::now(), 0);
    loop {
        progress(part.len(), total);
        let broken = |error: io::Error| Failure::Broken { problem: error.to_string() };
        let read = body.read(&mut buffer).map_err(broken)?;
        if read == 0 {
            break;
        }
        part.write(&buffer[..read])?;
        if let Some(total) = total.filter(|total| part.len() > *total) {
            let found = part.len();
            part.restart(None)?;
            return Err(Failure::Length { expected: total, found }.into());
        }
        if let Some(max_size) = is_too_long(part.len()) {
            part.restart(None)?;
            return Err(Failure::TooLong { max_size }.into());
        }
        in_window += read as u64;
        if since.elapsed() >= options.stall {
            if in_window < LEAST_BYTES_PER_SECOND * since.elapsed().as_secs() {
                return Err(Failure::Slow { bytes: in_window, seconds: since.elapsed().as_secs() }.into());
            }
            (since, in_window) = (Instant::now(), 0);
        }
    }
    match total {
        Some(total) if part.len() < total => Err(Failure::Cut { expected: total, found: part.len() }.into()),
        _ => Ok(()),
    }
}

/// First byte and total length, from `bytes FIRST-LAST/LENGTH`.
fn content_range(value: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

/// The validator of a version of the file for `If-Range`: a strong tag, or a date.
fn version<T>(response: &Response<T>) -> Option<String> {
    let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let tag = field(header::ETAG).filter(|tag| !tag.starts_with("W/"));
    tag.or_else(|| field(header::LAST_MODIFIED)).map(str::to_owned)
}
