//! Metrics of the server for Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::trees::Trees;

/// Upper bounds of the buckets of times, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Asking the index.
    Search,
    /// Writing the answer.
    Render,
}

#[derive(Default)]
pub(crate) struct Metrics {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// By route and status.
    requests: BTreeMap<(String, u16), u64>,
    /// By route.
    times: BTreeMap<String, Histogram>,
    stages: BTreeMap<Stage, Histogram>,
}

#[derive(Default, Clone)]
struct Histogram {
    buckets: [u64; BUCKETS.len()],
    n: u64,
    sum: f64,
}

impl Histogram {
    fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket] += 1;
        }
        self.n += 1;
        self.sum += seconds;
    }

    fn write(&self, text: &mut String, name: &str, label: &str) {
        let mut below = 0;
        for (bound, n) in BUCKETS.iter().zip(&self.buckets) {
            below += n;
            let _ = writeln!(text, "{name}_bucket{{{label},le=\"{bound}\"}} {below}");
        }
        let _ = writeln!(text, "{name}_bucket{{{label},le=\"+Inf\"}} {}", self.n);
        let _ = writeln!(text, "{name}_sum{{{label}}} {}", self.sum);
        let _ = writeln!(text, "{name}_count{{{label}}} {}", self.n);
    }
}

impl Metrics {
    /// Counts an answered request. Routes are those of the server, not what was asked for.
    pub(crate) fn count(&self, route: &str, status: u16, time: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.requests.entry((route.to_owned(), status)).or_default() += 1;
        counts.times.entry(route.to_owned()).or_default().add(time);
    }

    pub(crate) fn time(&self, stage: Stage, time: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.stages.entry(stage).or_default().add(time);
    }

    /// In Prometheus's text format.
    pub(crate) fn text(&self, trees: &Trees, n_streams: usize) -> String {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        about(&mut text, "quarry_requests_total", "counter", "Requests that were answered.");
        for ((route, status), n) in &counts.requests {
            let _ = writeln!(text, "quarry_requests_total{{route=\"{route}\",status=\"{status}\"}} {n}");
        }
        about(&mut text, "quarry_request_seconds", "histogram", "Time to answer a request.");
        for (route, times) in &counts.times {
            times.write(&mut text, "quarry_request_seconds", &format!("route=\"{route}\""));
        }
        about(&mut text, "quarry_stage_seconds", "histogram", "Time of each stage of a search.");
        for (stage, times) in &counts.stages {
            let stage = match stage {
                Stage::Search => "search",
                Stage::Render => "render",
            };
            times.write(&mut text, "quarry_stage_seconds", &format!("stage=\"{stage}\""));
        }
        let mut number = |name: &str, kind: &str, help: &str, value: &dyn Display| {
            about(&mut text, name, kind, help);
            let _ = writeln!(text, "{name} {value}");
        };
        number("quarry_streams_open", "gauge", "Streams of events that are open.", &n_streams);
        if let Some(pool) = &trees.pool {
            let counts = pool.counts();
            let open = "Segments of indexes (postings or vectors of a part) that are open.";
            number("quarry_segments_open", "gauge", open, &counts.open);
            number("quarry_segments_open_bytes", "gauge", "Size of their files.", &counts.bytes);
            let most = "Size above which the least recently used are closed.";
            number("quarry_segments_open_bytes_limit", "gauge", most, &counts.max_bytes);
            number("quarry_segments_opened_total", "counter", "Segments that were opened.", &counts.opened);
            let closed = "Segments that were closed to make room for others.";
            number("quarry_segments_closed_total", "counter", closed, &counts.closed);
        }
        let current = trees.current();
        let ready = u8::from(current.is_some());
        number("quarry_index_ready", "gauge", "Whether there is an index to search.", &ready);
        if let Some(current) = current {
            let age = current.since.elapsed().as_secs_f64();
            let help = "Time since the index was opened or refreshed.";
            number("quarry_index_age_seconds", "gauge", help, &age);
            let (units, files) = current.tree.sizes();
            number("quarry_index_units", "gauge", "Units that are indexed.", &units);
            number("quarry_index_files", "gauge", "Files that are indexed.", &files);
            let opened = "Indexes that were opened.";
            number("quarry_index_refreshes_total", "counter", opened, &current.generation);
        }
        text
    }
}

/// Writes the lines that describe a metric.
fn about(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
