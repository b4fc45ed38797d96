//! A provider of batches, in OpenAI's form and in Anthropic's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::model_server::{Reply, Seen, Server};

/// What becomes of a question.
pub enum Fate {
    /// It is answered with this body.
    Answered(Value),
    /// The answer is there twice.
    Twice(Value),
    /// It failed.
    Failed,
    /// The day was over.
    Expired,
    /// Nothing is said about it.
    Missing,
    /// What is said about it is cut.
    Cut,
}

/// A batch, and how often its state was asked for.
pub struct Batch {
    /// Id by the provider.
    pub id: String,
    /// Name in the metadata of the request.
    pub name: Option<String>,
    created: f64,
    /// Requests with their custom ids.
    pub questions: Vec<(String, Value)>,
    looks: usize,
    fates: Vec<Fate>,
}

/// What the provider knows.
#[derive(Default)]
pub struct Books {
    /// Batches in the order of their creation.
    pub batches: Vec<Batch>,
    files: HashMap<String, Vec<(String, Value)>>,
    /// How often each question came, by its body.
    pub asked: HashMap<String, usize>,
    /// Number of looks at a batch until it has ended.
    pub patience: usize,
    /// Number of batches that are lost when they are created.
    pub losses: usize,
    /// Why no batch is taken.
    pub refusal: Option<String>,
}

/// Decides the fate of a question that came so often, from 1.
type Decide = dyn Fn(&Value, usize) -> Fate + Send + Sync;

/// What goes wrong with a request, of which it is so many: the reply is sent instead of the right one, though
/// what was asked for is done.
type Trouble = dyn Fn(&Seen, usize) -> Option<Reply> + Send + Sync;

/// A server of batches, and its books.
pub fn provider(
    decide: impl Fn(&Value, usize) -> Fate + Send + Sync + 'static,
    trouble: impl Fn(&Seen, usize) -> Option<Reply> + Send + Sync + 'static,
) -> (Server, Arc<Mutex<Books>>) {
    let books = Arc::new(Mutex::new(Books { patience: 1, ..Books::default() }));
    let server = Server::script({
        let books = Arc::clone(&books);
        let (decide, trouble): (Box<Decide>, Box<Trouble>) = (Box::new(decide), Box::new(trouble));
        move |index, seen| {
            let reply = books.lock().unwrap().answer(seen, &*decide);
            trouble(seen, index).unwrap_or(reply)
        }
    });
    (server, books)
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

impl Books {
    fn answer(&mut self, seen: &Seen, decide: &Decide) -> Reply {
        let path = seen.path.strip_prefix("/v1").unwrap().to_owned();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match (seen.method.as_str(), parts.as_slice()) {
            ("POST", ["files"]) => self.upload(seen.body.as_str().unwrap()),
            ("POST", ["batches"]) => {
                let questions = self.files[seen.body["input_file_id"].as_str().unwrap()].clone();
                assert_eq!(seen.body["endpoint"], "/v1/chat/completions");
                let name = seen.body["metadata"]["quarry"].as_str().map(str::to_owned);
                self.create(questions, name, decide)
            }
            ("POST", ["messages", "batches"]) => {
                let requests = seen.body["requests"].as_array().unwrap().iter();
                let questions = requests
                    .map(|one| (one["custom_id"].as_str().unwrap().to_owned(), one["params"].clone()))
                    .collect();
                self.create(questions, None, decide)
            }
            ("GET", ["batches"]) => self.list(query, "after=", Self::openai),
            ("GET", ["messages", "batches"]) => self.list(query, "after_id=", Self::anthropic),
            ("GET", ["batches", id]) => self.look(id, Self::openai),
            ("GET", ["messages", "batches", id]) => self.look(id, Self::anthropic),
            ("GET", ["messages", "batches", id, "results"]) => {
                let batch = self.batch(id);
                let lines = |name: &str, fate: &Fate| {
                    let line = |result: Value| format!("{}\n", json!({"custom_id": name, "result": result}));
                    let message = |body: &Value| line(json!({"type": "succeeded", "message": body}));
                    match fate {
                        Fate::Answered(body) => message(body),
                        Fate::Twice(body) => message(body) + &message(body),
                        Fate::Failed => {
                            let error = json!({"type": "error", "error": {"message": "bad luck"}});
                            line(json!({"type": "errored", "error": error}))
                        }
                        Fate::Expired => line(json!({"type": "expired"})),
                        Fate::Missing => String::new(),
                        Fate::Cut => "{\"custom_id\": \"x\", \"resu\n".to_owned(),
                    }
                };
                let all = batch.questions.iter().zip(&batch.fates).map(|((name, _), fate)| lines(name, fate));
                Reply::Status(200, String::new(), all.rev().collect())
            }
            ("GET", ["files", file, "content"]) => {
                let (kind, id) = file.split_once('.').unwrap();
                let batch = self.batch(id);
                let lines = |name: &str, fate: &Fate| {
                    let line = |response: Value, error: Value| {
                        format!("{}\n", json!({"custom_id": name, "response": response, "error": error}))
                    };
                    let answer = |body: &Value| line(json!({"status_code": 200, "body": body}), Value::Null);
                    match (kind, fate) {
                        ("out", Fate::Answered(body)) => answer(body),
                        ("out", Fate::Twice(body)) => answer(body) + &answer(body),
                        ("err", Fate::Failed) => {
                            let body = json!({"error": {"message": "bad luck"}});
                            line(json!({"status_code": 500, "body": body}), Value::Null)
                        }
                        ("err", Fate::Expired) => {
                            line(Value::Null, json!({"code": "batch_expired", "message": "expired"}))
                        }
                        ("out", Fate::Cut) => "{\"custom_id\": \"x\", \"resp\n".to_owned(),
                        _ => String::new(),
                    }
                };
                let all = batch.questions.iter().zip(&batch.fates).map(|((name, _), fate)| lines(name, fate));
                Reply::Status(200, String::new(), all.rev().collect())
            }
            _ => Reply::status(404, "{\"error\": {\"message\": \"no such thing\"}}"),
        }
    }

    fn upload(&mut self, form: &str) -> Reply {
        assert!(form.contains("name=\"purpose\"\r\n\r\nbatch\r\n"), "{form}");
        let file = form.split_once("application/jsonl\r\n\r\n").unwrap().1.split_once("\r\n--").unwrap().0;
        let questions = file.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&line["method"], &line["url"]), (&json!("POST"), &json!("/v1/chat/completions")));
            (line["custom_id"].as_str().unwrap().to_owned(), line["body"].clone())
        });
        let id = format!("file-{}", self.files.len());
        self.files.insert(id.clone(), questions.collect());
        Reply::ok(json!({"id": id, "object": "file"}))
    }

    fn create(&mut self, questions: Vec<(String, Value)>, name: Option<String>, decide: &Decide) -> Reply {
        if self.losses > 0 {
            self.losses -= 1;
            return Reply::status(500, "oops");
        }
        let fates = questions
            .iter()
            .map(|(_, body)| {
                let count = self.asked.entry(body.to_string()).or_default();
                *count += 1;
                decide(body, *count)
            })
            .collect();
        let id = format!("batch_{}", self.batches.len());
        self.batches.push(Batch { id: id.clone(), name, created: now(), questions, looks: 0, fates });
        Reply::ok(json!({"id": id, "status": "validating", "processing_status": "in_progress"}))
    }

    fn batch(&mut self, id: &str) -> &mut Batch {
        self.batches.iter_mut().find(|batch| batch.id == id).unwrap()
    }

    fn look(&mut self, id: &str, shown: fn(&Self, &Batch) -> Value) -> Reply {
        self.batch(id).looks += 1;
        let batch = self.batches.iter().find(|batch| batch.id == id).unwrap();
        Reply::ok(shown(self, batch))
    }

    /// Newest first, two to a page.
    fn list(&self, query: &str, after: &str, shown: fn(&Self, &Batch) -> Value) -> Reply {
        let last = query.split('&').find_map(|word| word.strip_prefix(after));
        let newest: Vec<&Batch> = self.batches.iter().rev().collect();
        let from = last.map_or(0, |id| newest.iter().position(|batch| batch.id == id).unwrap() + 1);
        let page: Vec<Value> = newest[from..].iter().take(2).map(|batch| shown(self, batch)).collect();
        Reply::ok(json!({"data": page, "has_more": newest.len() > from + 2}))
    }

    fn has_ended(&self, batch: &Batch) -> bool {
        batch.looks > self.patience
    }

    fn openai(&self, batch: &Batch) -> Value {
        let status = match (&self.refusal, self.has_ended(batch)) {
            (Some(_), _) => "failed",
            (None, true) => "completed",
            (None, false) => "in_progress",
        };
        let file = |kind: &str| {
            if status == "completed" { json!(format!("{kind}.{}", batch.id)) } else { Value::Null }
        };
        json!({
            "id": batch.id, "status": status, "created_at": batch.created, "metadata": {"quarry": batch.name},
            "request_counts": {"total": batch.questions.len()},
            "output_file_id": file("out"), "error_file_id": file("err"),
            "errors": {"data": [{"code": "no", "message": self.refusal}]},
        })
    }

    fn anthropic(&self, batch: &Batch) -> Value {
        let status = if self.has_ended(batch) { "ended" } else { "in_progress" };
        json!({
            "id": batch.id, "processing_status": status, "created_at": "2100-01-01T00:00:00Z",
            "request_counts": {"processing": batch.questions.len(), "succeeded": 0, "errored": 0},
            "results_url": "http://somewhere-else.invalid/results",
        })
    }
}
