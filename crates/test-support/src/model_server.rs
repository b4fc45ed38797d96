//! A model server on loopback that follows a script.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

/// Reply of the server to one request.
#[derive(Clone)]
pub enum Reply {
    /// A status, more headers (each with its line end) and a body.
    Status(u16, String, String),
    /// As above with status 200, after a while.
    Late(Duration, String),
    /// Announces the whole body and sends half of it.
    Half(String),
    /// Sends the body a byte at a time, with a pause after each.
    Drip(Duration, String),
    /// Bytes that are not HTTP.
    Garbage,
    /// Closes the connection without a word.
    Hang,
    /// A body that is not UTF-8.
    Bytes(Vec<u8>),
}

impl Reply {
    /// Status 200 with a body.
    pub fn ok(body: Value) -> Self {
        Self::Status(200, String::new(), body.to_string())
    }

    pub fn status(status: u16, body: &str) -> Self {
        Self::Status(status, String::new(), body.to_owned())
    }
}

/// A request as the server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Path and query of the address.
    pub path: String,
    /// Header lines in lower case.
    pub headers: String,
    /// JSON, or else the text as a JSON string.
    pub body: Value,
}

type Script = Arc<dyn Fn(usize, &Seen) -> Reply + Send + Sync>;

/// A server that answers until it is dropped.
pub struct Server {
    address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Gives `replies` in turn, and the last of them from then on.
    pub fn replies(replies: impl Into<VecDeque<Reply>>) -> Self {
        let replies = replies.into();
        Self::script(move |index, _| replies[index.min(replies.len() - 1)].clone())
    }

    /// Answers request number `index`, from 0 on, as `script` says.
    pub fn script(script: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (seen, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let script: Script = Arc::new(script);
        let accepting = thread::spawn({
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(stream) = stream else { continue };
                    let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                    thread::spawn(move || {
                        let _ = serve(stream, &script, &seen);
                    });
                }
            }
        });
        Self { address, seen, stop, accepting: Some(accepting) }
    }

    /// Base address, as the setting `base_url` takes it.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests so far, in order of arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Number of requests so far.
    pub fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(&self.address);
        let _ = self.accepting.take().unwrap().join();
    }
}

/// Serves one request of a connection and closes it.
fn serve(mut stream: TcpStream, script: &Script, seen: &Mutex<Vec<Seen>>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let (mut headers, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        // Whoever asked may be gone before its question was whole.
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line.trim().is_empty() {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        headers.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
    let request =
        Seen { method, path, headers, body: serde_json::from_slice(&body).unwrap_or_else(|_| text()) };
    let index = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.len() - 1
    };
    let head = |status: u16, more: &str, length: usize| {
        format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n{more}content-length: {length}\r\n\r\n"
        )
    };
    match script(index, &request) {
        Reply::Status(status, more, body) => {
            stream.write_all((head(status, &more, body.len()) + &body).as_bytes())?;
        }
        Reply::Late(pause, body) => {
            thread::sleep(pause);
            stream.write_all((head(200, "", body.len()) + &body).as_bytes())?;
        }
        Reply::Half(body) => {
            stream.write_all((head(200, "", body.len()) + &body[..body.len() / 2]).as_bytes())?;
        }
        Reply::Drip(pause, body) => {
            stream.write_all(head(200, "", body.len()).as_bytes())?;
            for byte in body.bytes() {
                thread::sleep(pause);
                stream.write_all(&[byte])?;
            }
        }
        Reply::Garbage => stream.write_all(b"\x00\x01 this is not a web server\r\n\r\n")?,
        Reply::Hang => {}
        Reply::Bytes(bytes) => {
            stream.write_all(head(200, "", bytes.len()).as_bytes())?;
            stream.write_all(&bytes)?;
        }
    }
    stream.flush()
}

/// A chat completion in OpenAI's form.
pub fn completion(text: &str, input: u64, output: u64) -> Value {
    json!({
        "id": "x", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input.wrapping_add(output)},
    })
}

/// Embeddings in OpenAI's form: of each text its length and its first byte, the last text first.
pub fn embeddings(request: &Value) -> Value {
    let texts = request["input"].as_array().unwrap();
    let vector = |text: &str| [text.len() as f32, text.bytes().next().map_or(0.0, f32::from) / 7.0];
    let data: Vec<Value> = (texts.iter().enumerate().rev())
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text.as_str().unwrap())}))
        .collect();
    json!({"object": "list", "data": data, "usage": {"prompt_tokens": 3 * texts.len(), "total_tokens": 3 * texts.len()}})
}
