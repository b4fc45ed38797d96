//! Messages as they are framed on stdin and stdout: a header with their length, an empty line, and JSON.

use std::io::{self, BufRead, Read, Write};

/// Bytes of the longest message that is read: an editor sends whole files.
pub(crate) const MAX_MESSAGE_BYTES: u64 = 32 << 20;

/// Bytes of a line of a header that are kept.
const MAX_LINE_BYTES: usize = 1 << 10;

#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    /// A message, which need not be JSON.
    Message(Vec<u8>),
    /// A message that was skipped because it is this long.
    TooLong(u64),
    /// A header without a length, which was skipped.
    NoLength,
}

/// The next message; `None` at the end of the input. Lines that are not headers are skipped.
pub(crate) fn read(input: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let (mut length, mut n_lines) = (None, 0);
    loop {
        let Some(line) = read_line(input)? else { return Ok(None) };
        if line.is_empty() {
            match length {
                Some(length) => return read_body(input, length),
                // Empty lines before a header are not worth an error.
                None if n_lines == 0 => continue,
                None => return Ok(Some(Frame::NoLength)),
            }
        }
        n_lines += 1;
        let text = String::from_utf8_lossy(&line);
        if let Some((name, value)) = text.split_once(':')
            && name.trim().eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<u64>().ok();
        }
    }
}

fn read_body(input: &mut impl BufRead, length: u64) -> io::Result<Option<Frame>> {
    let mut body = input.take(length);
    if length > MAX_MESSAGE_BYTES {
        io::copy(&mut body, &mut io::sink())?;
        return Ok(Some(Frame::TooLong(length)));
    }
    // Not reserved: nobody has sent so much yet.
    let mut bytes = Vec::new();
    body.read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 == length).then_some(Frame::Message(bytes)))
}

/// A line without its end, cut if it is long; `None` at the end of the input.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok(None);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = &available[..end.unwrap_or(available.len())];
        line.extend_from_slice(&taken[..taken.len().min(MAX_LINE_BYTES - line.len())]);
        let n_read = end.map_or(available.len(), |end| end + 1);
        input.consume(n_read);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Some(line));
        }
    }
}

pub(crate) fn write(output: &mut impl Write, text: &str) -> io::Result<()> {
    write!(output, "Content-Length: {}\r\n\r\n{text}", text.len())?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn frames(mut input: &[u8]) -> Vec<Frame> {
        std::iter::from_fn(|| read(&mut input).unwrap()).collect()
    }

    #[test]
    fn messages_are_found_among_other_lines() {
        let message = |text: &str| Frame::Message(text.as_bytes().to_vec());
        let input = b"Content-Length: 2\r\nContent-Type: x\r\n\r\n{}content-length:3\n\n[1]";
        assert_eq!(frames(input), [message("{}"), message("[1]")]);
        let input = b"\x00garbage\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(frames(input), [message("{}")]);
        let input = b"Content-Length: many\r\n\r\nContent-Length: -1\r\n\r\n\r\n";
        assert_eq!(frames(input), [Frame::NoLength, Frame::NoLength]);
        assert_eq!(frames(b"Content-Length: 9\r\n\r\n{}"), []);
        let long = format!("{}\r\nContent-Length: 2\r\n\r\n{{}}", "x".repeat(100_000));
        assert_eq!(frames(long.as_bytes()), [message("{}")]);
    }

    #[test]
    fn written_data_is_read_back() {
        let mut output = Vec::new();
        let value = serde_json::json!({"method": "ä"});
        write(&mut output, &value.to_string()).unwrap();
        let [Frame::Message(bytes)] = &frames(&output)[..] else { panic!("{output:?}") };
        assert_eq!(serde_json::from_slice::<Value>(bytes).unwrap(), value);
    }

    #[test]
    fn a_long_message_is_skipped() {
        let length = MAX_MESSAGE_BYTES + 1;
        let mut input = format!("Content-Length: {length}\r\n\r\n").into_bytes();
        input.resize(input.len() + length as usize, b' ');
        input.extend(b"Content-Length: 2\r\n\r\n{}");
        assert_eq!(frames(&input), [Frame::TooLong(length), Frame::Message(b"{}".to_vec())]);
        assert_eq!(frames(b"Content-Length: 18446744073709551615\r\n\r\n{}"), [Frame::TooLong(u64::MAX)]);
    }
}
