//! A NATS server for one test: on a free port, with its files in a temporary directory.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A server that runs until it is dropped.
pub struct Nats {
    child: Child,
    directory: TempDir,
    /// Port on loopback.
    pub port: u16,
}

impl Nats {
    /// A server with JetStream; `None`, with a message, where nats-server is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with(&["--jetstream"])
    }

    /// A server with these options of its command line.
    pub fn start_with(options: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let Some(child) = spawn(directory.path(), "-1", options) else {
            // Not by a macro, whose output the test runner hides.
            let _ = writeln!(
                std::io::stderr(),
                "\nSKIPPED: nats-server is not installed, so no work is handed to workers\n"
            );
            return None;
        };
        let mut nats = Self { child, directory, port: 0 };
        nats.port = nats.read_port();
        Some(nats)
    }

    /// Address for clients.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills the server, and starts it again on the same port with the same files.
    pub fn restart(&mut self, pause: Duration) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        thread::sleep(pause);
        self.child = spawn(self.directory.path(), &self.port.to_string(), &["--jetstream"]).unwrap();
    }

    /// A connection for what no client would do.
    pub fn connect(&self) -> Bare {
        Bare::connect(self.port)
    }

    fn read_port(&mut self) -> u16 {
        let end = Instant::now() + Duration::from_secs(20);
        let file = self.directory.path().join(format!("nats-server_{}.ports", self.child.id()));
        loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let port = text.rsplit_once("127.0.0.1:").map(|(_, rest)| rest);
            let digits = port.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
            if let Some(port) = digits.and_then(|digits| digits.parse().ok()) {
                return port;
            }
            assert!(Instant::now() < end, "nats-server does not start: {:?}", self.child.try_wait());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A connection on which a test speaks the protocol of NATS itself.
pub struct Bare(BufReader<TcpStream>);

impl Bare {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut bare = Self(BufReader::new(stream));
        bare.send_raw("CONNECT {\"verbose\":false,\"headers\":true}\r\n");
        bare.wait_for("INFO");
        bare
    }

    /// Sends a text as it is.
    pub fn send_raw(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Publishes a message.
    pub fn publish(&mut self, subject: &str, reply: &str, payload: &str) {
        self.send_raw(&format!("PUB {subject} {reply} {}\r\n{payload}\r\n", payload.len()));
    }

    /// The next line with this beginning; other lines are skipped.
    pub fn wait_for(&mut self, beginning: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the server ended the connection");
            if line.starts_with(beginning) {
                return line;
            }
        }
    }

    /// Has the server send everything that is published, and listens until the test drops what it gets.
    pub fn listen_to_all(mut self) -> Arc<Mutex<Vec<u8>>> {
        let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
        let listener = Arc::downgrade(&heard);
        self.send_raw("SUB > 1\r\nPING\r\n");
        self.wait_for("PONG");
        thread::spawn(move || {
            let mut bytes = [0; 1 << 16];
            while let (Ok(count @ 1..), Some(heard)) = (self.0.read(&mut bytes), listener.upgrade()) {
                heard.lock().unwrap().extend(&bytes[..count]);
            }
        });
        heard
    }

    /// Takes the next task of a kind as a worker that is never heard of again.
    pub fn take_and_die(mut self, kind: &str, lease: Duration) {
        let consumer = format!(
            "{{\"stream_name\":\"QUARRY_TASKS\",\"config\":{{\"durable_name\":\"{kind}\",\"ack_policy\":\"explicit\",\
             \"filter_subject\":\"quarry.task.{kind}.>\",\"deliver_policy\":\"all\",\"ack_wait\":{}}}}}",
            lease.as_nanos()
        );
        self.send_raw("SUB made made\r\nSUB next next\r\n");
        self.publish(&format!("$JS.API.CONSUMER.DURABLE.CREATE.QUARRY_TASKS.{kind}"), "made", &consumer);
        self.wait_for("MSG made");
        self.publish(&format!("$JS.API.CONSUMER.MSG.NEXT.QUARRY_TASKS.{kind}"), "next", "1");
        self.wait_for("HMSG quarry.task");
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(directory: &Path, port: &str, options: &[&str]) -> Option<Child> {
    let programs = ["nats-server", "/usr/sbin/nats-server"];
    programs.iter().find_map(|program| {
        Command::new(program)
            .args(["--addr", "127.0.0.1", "--port", port])
            .arg("--store_dir")
            .arg(directory)
            .arg("--ports_file_dir")
            .arg(directory)
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()
    })
}
