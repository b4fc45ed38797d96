//! OpenAI's batches: a file with one question per line, and one or two files of answers.
//! Source: the API reference of OpenAI, "Batch" and "Files".

use serde_json::{Value, json};

use super::{BatchAnswer, BatchState, Cancellable, ListedBatch, SendOutcome, id_of, message, parsed, text};
use crate::error::Failure;

/// The API that each question is sent to.
const ENDPOINT: &str = "/v1/chat/completions";

/// Separates the parts of an upload. JSON strings contain no raw line breaks, so no line within can begin like this.
const BOUNDARY: &str = "quarry-batch-boundary";

pub(super) fn create<'a>(
    batches: &Cancellable<'_>,
    name: &str,
    questions: impl Iterator<Item = (&'a str, Value)>,
) -> SendOutcome {
    let file: String = questions
        .map(|(name, body)| {
            let line = json!({"custom_id": name, "method": "POST", "url": ENDPOINT, "body": body});
            format!("{line}\n")
        })
        .collect();
    let form = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
         --{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}.jsonl\"\r\n\
         Content-Type: application/jsonl\r\n\r\n{file}\r\n--{BOUNDARY}--\r\n"
    );
    // A file that is uploaded twice costs nothing, and if the upload fails, no batch is created.
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let file = match batches.put("/files", (&kind, &form)).and_then(|body| id_of(&parsed(&body)?, "id")) {
        Ok(file) => file,
        Err(failure) => return SendOutcome::NotSent(failure),
    };
    let batch = json!({
        "input_file_id": file, "endpoint": ENDPOINT, "completion_window": "24h", "metadata": {"quarry": name},
    });
    batches.make("/batches", &batch.to_string())
}

pub(super) fn list(
    batches: &Cancellable<'_>,
    after: Option<&str>,
) -> Result<(Vec<ListedBatch>, bool), Failure> {
    let after = after.map_or(String::new(), |id| format!("&after={id}"));
    let page = parsed(&batches.get(&format!("/batches?limit=100{after}"))?)?;
    let listed = page["data"].as_array().into_iter().flatten().map(|batch| {
        Ok(ListedBatch {
            id: id_of(batch, "id")?,
            // Batches of other programs have other names.
            name: Some(batch["metadata"]["quarry"].as_str().unwrap_or_default().to_owned()),
            created: batch["created_at"].as_f64().unwrap_or(f64::INFINITY),
            n_questions: batch["request_counts"]["total"].as_u64(),
            has_ended: false,
        })
    });
    Ok((listed.collect::<Result<_, Failure>>()?, page["has_more"] == true))
}

fn batch(batches: &Cancellable<'_>, id: &str) -> Result<Value, Failure> {
    parsed(&batches.get(&format!("/batches/{id}"))?)
}

pub(super) fn state(batches: &Cancellable<'_>, id: &str) -> Result<BatchState, Failure> {
    let batch = batch(batches, id)?;
    Ok(match text(&batch, "status")? {
        "failed" => {
            let errors = batch["errors"]["data"].as_array().into_iter().flatten().map(message);
            BatchState::Refused(errors.collect::<Vec<_>>().join("; "))
        }
        // Questions answered before that are in the files.
        "completed" | "expired" | "cancelled" => BatchState::Ended,
        _ => BatchState::InProgress,
    })
}

/// Paths of the answers.
pub(super) fn files(batches: &Cancellable<'_>, id: &str) -> Result<Vec<String>, Failure> {
    let batch = batch(batches, id)?;
    let of_batch = ["output_file_id", "error_file_id"].into_iter().filter(|name| !batch[name].is_null());
    of_batch.map(|name| Ok(format!("/files/{}/content", id_of(&batch, name)?))).collect()
}

pub(super) fn answer(line: &Value) -> Result<BatchAnswer, Failure> {
    let response = &line["response"];
    let body = match response["status_code"].as_u64() {
        Some(200) => Ok(response["body"].to_string()),
        Some(status) => Err(format!("status {status}: {}", message(&response["body"]))),
        None => Err(message(&line["error"])),
    };
    Ok(BatchAnswer { name: text(line, "custom_id")?.to_owned(), body })
}
