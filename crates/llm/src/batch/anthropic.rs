//! Anthropic's message batches.
//! Source: the API reference of Anthropic, "Message Batches", version 2023-06-01.

use serde_json::{Value, json};

use super::{BatchAnswer, BatchState, Cancellable, ListedBatch, SendOutcome, id_of, message, parsed, text};
use crate::error::Failure;

const PATH: &str = "/messages/batches";

pub(super) fn create<'a>(
    batches: &Cancellable<'_>,
    questions: impl Iterator<Item = (&'a str, Value)>,
) -> SendOutcome {
    let requests: Vec<Value> =
        questions.map(|(name, body)| json!({"custom_id": name, "params": body})).collect();
    let body = json!({"requests": requests}).to_string();
    batches.make(PATH, &body)
}

/// Lists the batches. They have no names, and are recognized by their questions when they have ended.
pub(super) fn list(
    batches: &Cancellable<'_>,
    after: Option<&str>,
) -> Result<(Vec<ListedBatch>, bool), Failure> {
    let after = after.map_or(String::new(), |id| format!("&after_id={id}"));
    let page = parsed(&batches.get(&format!("{PATH}?limit=100{after}"))?)?;
    let listed = page["data"].as_array().into_iter().flatten().map(|batch| {
        let counts = batch["request_counts"].as_object();
        let created = batch["created_at"].as_str().and_then(seconds);
        Ok(ListedBatch {
            id: id_of(batch, "id")?,
            name: None,
            created: created.unwrap_or(f64::INFINITY),
            n_questions: counts.map(|counts| counts.values().filter_map(Value::as_u64).sum()),
            has_ended: batch["processing_status"] == "ended",
        })
    });
    Ok((listed.collect::<Result<_, Failure>>()?, page["has_more"] == true))
}

pub(super) fn state(batches: &Cancellable<'_>, id: &str) -> Result<BatchState, Failure> {
    let batch = parsed(&batches.get(&format!("{PATH}/{id}"))?)?;
    Ok(if text(&batch, "processing_status")? == "ended" { BatchState::Ended } else { BatchState::InProgress })
}

/// Paths of the answers. The URL in the batch may have another host, and the key must not be sent to other hosts.
pub(super) fn files(_: &Cancellable<'_>, id: &str) -> Result<Vec<String>, Failure> {
    Ok(vec![format!("{PATH}/{id}/results")])
}

pub(super) fn answer(line: &Value) -> Result<BatchAnswer, Failure> {
    let result = &line["result"];
    let body = match result["type"].as_str() {
        Some("succeeded") => Ok(result["message"].to_string()),
        Some("errored") => Err(message(&result["error"])),
        other => Err(other.unwrap_or("a result without a type").to_owned()),
    };
    Ok(BatchAnswer { name: text(line, "custom_id")?.to_owned(), body })
}

/// Parses an RFC 3339 time in UTC, such as `2024-08-20T18:37:24.100435Z`, into seconds since 1970.
fn seconds(time: &str) -> Option<f64> {
    let (date, clock) = time.strip_suffix('Z').or(time.strip_suffix("+00:00"))?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut clock = clock.splitn(3, ':').map(str::parse::<f64>);
    let (hours, minutes, seconds) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    // Days of the proleptic Gregorian calendar, with years that begin in March (H. Hinnant, "chrono-Compatible
    // Low-Level Date Algorithms").
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(days as f64 * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        for (time, expected) in [
            ("1970-01-01T00:00:00Z", Some(0.0)),
            ("2024-02-29T12:30:15.5Z", Some(1_709_209_815.5)),
            ("2024-08-20T18:37:24+00:00", Some(1_724_179_044.0)),
            ("2100-03-01T00:00:00Z", Some(4_107_542_400.0)),
            ("2024-08-20", None),
            ("yesterday", None),
        ] {
            assert_eq!(seconds(time), expected, "{time}");
        }
    }
}
