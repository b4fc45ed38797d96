import assert from "node:assert/strict";
import { test } from "node:test";

import { counted, named, parts, printable } from "../src/text";

function marked(text: string, query: string): string {
  return parts(text, query).map((part) => (part.isMatch ? `[${part.text}]` : part.text)).join("");
}

test("words of the query are marked in identifiers and in English", () => {
  assert.equal(marked("fn readFile(files: &[File])", "read a file"), "fn [read][File]([files]: &[[File]])");
  assert.equal(marked("retry_with_backoff(call)", "retrying with backoff"), "[retry]_with_[backoff](call)");
  assert.equal(marked("/// Waits until a lock is free.", "wait for the lock"), "/// [Waits] until a [lock] is free.");
  assert.equal(marked("HTTPServer", "http"), "[HTTP]Server");
  assert.equal(marked("the end", "the"), "the end");
  assert.equal(marked("größe", "größe"), "[größe]");
  assert.equal(marked("anything", ""), "anything");
  assert.deepEqual(parts("", "x"), []);
});

test("a name is marked only as a whole", () => {
  const marked = (text: string, name: string) => named(text, name).map((part) => (part.isMatch ? `[${part.text}]` : part.text)).join("");
  assert.equal(marked("let locked = try_lock(&lock);", "lock"), "let locked = try_lock(&[lock]);");
  assert.equal(marked("Index::open(open_all)", "Index.open"), "Index::[open](open_all)");
  assert.equal(marked("größe(größer)", "größe"), "[größe](größer)");
  assert.equal(marked("anything", ""), "anything");
});

test("parts together are the text", () => {
  for (const text of ["", "a", "a b  c", "😀 file \u0301", "<script>alert(1)</script>", "File".repeat(2000)]) {
    assert.equal(parts(text, "file script alert").map((part) => part.text).join(""), text);
  }
});

test("characters that hide or reorder text are shown as codes", () => {
  assert.equal(printable("a\u202eb\u0007\u200b\ufeff"), "aU+202EbU+0007U+200BU+FEFF");
  assert.equal(printable("plain größe\t😀"), "plain größe\t😀");
});

test("numbers have their noun", () => {
  assert.equal(counted(1, "file"), "1 file");
  assert.equal(counted(12345, "unit"), "12,345 units");
});
