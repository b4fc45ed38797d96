//! Processes that must end.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The output of a command, which is killed and fails the test when it takes longer than `limit`. Its streams go through
/// files in `directory`, so that it never waits for a reader.
#[track_caller]
pub fn output_within(command: &mut Command, limit: Duration, directory: &Path) -> Output {
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| directory.join(name));
    command.stdin(Stdio::null());
    command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{command:?} did not end within {limit:?}");
        }
        thread::sleep(Duration::from_millis(5));
    };
    let read = |path| std::fs::read(path).unwrap();
    Output { status, stdout: read(&stdout), stderr: read(&stderr) }
}
