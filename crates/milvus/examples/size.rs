//! Measures an upload and a reader of many units beside an engine in memory, which scans all of them for each search.
//!
//! ```sh
//! python3 bench/large_tree.py TREE --files 160000
//! cargo run --release -p quarry-milvus --example size -- TREE
//! ```
//!
//! Each directory in `TREE` becomes a tree. When their number has doubled, the same queries are asked, twice. Beside
//! the clock stands the time of a processor in the mean, which other programs do not lengthen much.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use quarry_embed::StaticModel;
use quarry_index::{Filter, Index, OpenOptions, RankingWeights, SearchRequest, UserDirectories};
use quarry_milvus::{MemoryEngine, ReadOptions, Reader, Search, upload};

const QUERIES: [&str; 10] = [
    "read the header of a buffer of a socket",
    "write the record of a table",
    "count the tokens of a session of a cluster",
    "retry the packet of a stream",
    "merge the schema of a ledger of an archive",
    "find the snapshot of a replica",
    "parse the policy of a window",
    "encode the matrix of a sensor",
    "close the channel of a worker of a job",
    "sort the invoice of a tenant",
];

/// Mebibytes of memory that this process has of its own.
fn memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kibibytes.unwrap_or(f64::NAN) / 1024.0
}

/// Milliseconds of a processor that this process has used.
fn processor() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // In user mode and in the kernel, in hundredths of a second.
    let hundredths =
        after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    10.0 * hundredths.sum::<f64>()
}

fn index(tree: &Path) -> Result<Index, quarry_index::Error> {
    let user = UserDirectories { cache: None, state: None };
    let options = OpenOptions { user, ..OpenOptions::default() };
    let model = Some(Arc::new(StaticModel::builtin()) as _);
    Ok(Index::open_or_build(tree, &options, model, &|_| ())?.index)
}

/// The median and the longest time of searches, and the mean time of a processor, in milliseconds.
fn searches(reader: &Reader) -> Result<[f64; 3], Box<dyn Error>> {
    let mut times = Vec::new();
    let before = processor();
    for query in QUERIES {
        let start = Instant::now();
        let filter = Filter::default();
        let index = reader.search(Search::Query(query), &filter, 10)?;
        let request = SearchRequest { query, limit: 10, ranking: RankingWeights::default(), filter: &filter };
        if index.search(&request)?.hits.len() < 10 {
            return Err(format!("fewer than 10 results for {query:?}").into());
        }
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok([times[times.len() / 2], times[times.len() - 1], (processor() - before) / QUERIES.len() as f64])
}

fn main() -> Result<(), Box<dyn Error>> {
    let tree = env::args_os().nth(1).ok_or("expected a directory of trees")?;
    let mut parts: Vec<PathBuf> =
        fs::read_dir(tree)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    parts.retain(|part| part.is_dir());
    parts.sort();
    let engine = Arc::new(MemoryEngine::default());
    let (mut files, mut units, mut uploading) = (0, 0, Duration::ZERO);
    for (number, part) in (1..).zip(&parts) {
        let name = part.file_name().unwrap_or_default().to_string_lossy();
        let index = index(part)?;
        let start = Instant::now();
        let uploaded = upload(&*engine, (&name, &part.to_string_lossy()), &index, &mut |_| ())?;
        uploading += start.elapsed();
        drop(index);
        files += uploaded.files;
        units += uploaded.units;
        if !usize::is_power_of_two(number) && number != parts.len() {
            continue;
        }
        let before = memory();
        let start = Instant::now();
        let model = Arc::new(StaticModel::builtin());
        let reader = Reader::open(Arc::clone(&engine) as _, model, ReadOptions::default())?;
        let (opened, held) = (start.elapsed(), memory());
        let first = searches(&reader)?;
        let again = searches(&reader)?;
        println!(
            "{units} units of {files} files in {number} trees: uploads {:.1} s; reader open in {:.2} s; memory {before:.0} MiB, \
             {:.0} more with a reader, {:.0} more after its searches",
            uploading.as_secs_f64(),
            opened.as_secs_f64(),
            held - before,
            memory() - before,
        );
        for (which, [median, longest, of_processor]) in [("first time", first), ("again", again)] {
            println!(
                "  {which}: {median:.0} ms, {longest:.0} at most; {of_processor:.0} ms of a processor in the mean"
            );
        }
    }
    Ok(())
}
