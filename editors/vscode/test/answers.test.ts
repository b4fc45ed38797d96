import assert from "node:assert/strict";
import { test } from "node:test";

import { type Answer, type Callers, type Related, type Result, type Status, addressOf, foldersOf, languagesOf, searchArguments, shownCallees, shownCallers, shownRelated, shownSearch, shownSimilar, statusLines, statusText } from "../src/answers";

function result(path: string, name: string, changes: Partial<Result> = {}): Result {
  return {
    rank: 1, score: 1, root: "/trees/shop", path, language: "python", start_line: 4, end_line: 9, name, kind: "function",
    signature: "", snippet: "    def pay():\n        pass", snippet_line: 4, ...changes,
  };
}

function answer(...results: Result[]): Answer {
  return { results, confident: true, took_ms: 3.14 };
}

test("results are grouped by their files, in the order of the best one", () => {
  const shown = shownSearch(answer(result("src/b.py", "one"), result("a.py", "two"), result("src/b.py", "three")), "pay");
  assert.deepEqual(shown.files.map(({ name, directory, items }) => [name, directory, items.map(({ title }) => title)]), [
    ["b.py", "src", ["one", "three"]],
    ["a.py", "", ["two"]],
  ]);
  assert.equal(shown.summary, "3 results in 2 files · 3.1 ms");
  assert.equal(shown.notice, "");
});

test("equal paths of two folders are two files", () => {
  const shown = shownSearch(answer(result("a.py", "one"), result("a.py", "two", { root: "/trees/other" })), "pay");
  assert.equal(shown.files.length, 2);
});

test("lines lose the indentation that they share, and are marked", () => {
  const [file] = shownSearch(answer(result("a.py", "pay")), "pay").files;
  assert.deepEqual(file?.items[0]?.lines, [
    { line: 4, parts: [{ text: "def ", isMatch: false }, { text: "pay", isMatch: true }, { text: "():", isMatch: false }] },
    { line: 5, parts: [{ text: "    pass", isMatch: false }] },
  ]);
  const long = result("a.py", "x", { snippet: `${"y".repeat(5000)}\n\n${"z\n".repeat(50)}` });
  const lines = shownSearch(answer(long), "pay").files[0]?.items[0]?.lines ?? [];
  assert.equal(lines.length, 5);
  assert.ok(lines.every(({ parts }) => parts.every(({ text }) => text.length <= 300)));
  assert.deepEqual(lines.map(({ line }) => line), [4, 6, 7, 8, 9]);
});

test("what comes from files is printable", () => {
  const hostile = result("src/\u202e.py", "evil\u0007", { snippet: "\u202e" });
  const text = JSON.stringify(shownSearch(answer(hostile), "evil").files.map(({ name, directory, items }) => [name, directory, items.map(({ title, lines }) => [title, lines])]));
  assert.ok(text.includes("U+202E.py") && text.includes("evilU+0007"), text);
});

test("parts between definitions have no name, and nobody calls them", () => {
  const [file] = shownSearch(answer(result("a.py", "", { kind: "module" })), "pay").files;
  assert.equal(file?.items[0]?.title, "lines 4–9");
  assert.equal(file.items[0].isCallable, false);
});

test("an unclear or empty answer is a notice", () => {
  const unclear = shownSearch({ ...answer(result("a.py", "x")), confident: false }, "pay");
  assert.match(unclear.notice, /closest/);
  const none = shownSearch(answer(), "pay");
  assert.equal(none.summary, "Nothing found");
});

test("similar code names what it is similar to", () => {
  const shown = shownSimilar({ ...answer(result("a.py", "x")), similar_to: { path: "b.py", name: "pay", start_line: 1 } });
  assert.equal(shown.title, "Similar to pay");
});

test("callers are the places of the calls", () => {
  const definition = { root: "/trees/shop", path: "a.py", start_line: 1, end_line: 3, name: "pay", kind: "function" };
  const callers: Callers = {
    query: "a.py:1", definitions: [definition], total: 3, took_ms: 12,
    callers: [
      { root: "/trees/shop", path: "b.py", line: 7, text: "    pay(1)", caller: { ...definition, name: "buy" }, certain: true },
      { root: "/trees/shop", path: "b.py", line: 9, text: "pay(2)", caller: null, certain: false },
    ],
  };
  const shown = shownCallers(callers);
  assert.equal(shown.title, "Callers of pay");
  assert.deepEqual(shown.files[0]?.items.map(({ title, detail, startLine }) => [title, detail, startLine]), [["buy", "", 7], ["line 9", "matched by name only", 9]]);
  assert.equal(shown.notice, "1 call not shown.");
  assert.equal(shownCallers({ ...callers, callers: [], total: 0 }).summary, "No calls found");
});

test("callees are the definitions of what is called", () => {
  const definition = { root: "/trees/shop", path: "a.py", start_line: 1, end_line: 3, name: "pay", kind: "function" };
  const charge = { ...definition, path: "b.py", start_line: 7, end_line: 9, name: "charge" };
  const shown = shownCallees({
    query: "a.py:1", took_ms: 12,
    definitions: [{ ...definition, callees: [{ name: "charge", lines: [2], definitions: [charge] }], unknown: [{ name: "log" }], external: [{ name: "print" }, { name: "log" }] }],
  });
  assert.equal(shown.title, "Called by pay");
  assert.deepEqual(shown.files[0]?.items.map(({ title, detail, startLine, endLine }) => [title, detail, startLine, endLine]), [["charge", "function", 7, 9]]);
  assert.equal(shown.summary, "1 definition in 1 file · 12 ms");
  assert.equal(shown.notice, "Also called, without a definition here: log, print");
  assert.equal(shownCallees({ query: "x", took_ms: 1, definitions: [] }).summary, "No called definition found");
});

test("related places have the reason, and the line that shows it", () => {
  const definition = { root: "/trees/shop", path: "a.py", start_line: 1, end_line: 3, name: "pay", kind: "function" };
  const related: Related = {
    query: "a.py:1", history: [{ complete: true, head: "1f" }, { complete: false, head: null }], targets: [definition], more: { places: 3 }, took_ms: 12,
    results: [
      { ...definition, path: "b.py", start_line: 6, end_line: 9, name: "buy", reasons: [{ evidence: "calls it", line: 7, text: "    pay(1)" }, { evidence: "cosine 0.7" }] },
      { ...definition, path: "b.py", start_line: 20, end_line: 22, name: "", kind: "module", reasons: [] },
    ],
  };
  const shown = shownRelated(related);
  assert.equal(shown.title, "Related to pay");
  assert.deepEqual(shown.files[0]?.items.map(({ title, detail, startLine, isCallable }) => [title, detail, startLine, isCallable]), [["buy", "calls it", 6, true], ["lines 20–22", "", 20, false]]);
  assert.deepEqual(shown.files[0].items[0]?.lines, [{ line: 7, parts: [{ text: "pay", isMatch: true }, { text: "(1)", isMatch: false }] }]);
  assert.equal(shown.notice, "3 places not shown.");
  assert.match(shownRelated({ ...related, history: [{ complete: false, head: "1f" }] }).notice, /Not all commits/);
});

test("folders of one name are told apart by their paths", () => {
  const folders = ["/one/src", "/two/src", "/lib"].map((path) => ({ uri: `file://${path}`, path, name: path.slice(path.lastIndexOf("/") + 1) }));
  assert.deepEqual(foldersOf(folders), [["file:///one/src", "src (/one/src)"], ["file:///two/src", "src (/two/src)"], ["file:///lib", "lib"]]);
});

test("addresses are those of the server, or made of the path", () => {
  assert.equal(addressOf({ uri: "file:///x", root: "/a", path: "b" }), "file:///x");
  assert.equal(addressOf({ root: "/trees/my shop", path: "src/#1?.py" }), "file:///trees/my%20shop/src/%231%3F.py");
  assert.equal(addressOf({ root: "C:\\shop", path: "a.py" }), "file:///C%3A/shop/a.py");
});

test("only filters that are set are sent", () => {
  assert.deepEqual(searchArguments(" pay ", { language: " rust ", kind: "", glob: "src/**" }, 5), { query: "pay", limit: 5, language: "rust", glob: "src/**" });
  // What is not set is left to the settings of the folder.
  assert.deepEqual(searchArguments("pay", {}, undefined), { query: "pay" });
});

test("the state of indexes is told in words", () => {
  const status: Status = { root: "/trees/shop", fresh: true, reason: null, holds: { files: 1, units: 1200, bytes: 2_500_000, units_by_language: { go: 200, rust: 1000 } } };
  assert.equal(statusText([status, status]), "2,400 units");
  assert.deepEqual(languagesOf([status, status, { ...status, holds: null }]), [["rust", 2000], ["go", 400]]);
  assert.equal(statusText([{ ...status, holds: null }]), "no index yet");
  assert.deepEqual(statusLines(status), ["1,200 units in 1 file, 2.5 MB", "Up to date", "rust 1,000 · go 200"]);
  assert.match(statusLines({ ...status, fresh: false, reason: "1 file changed" })[1] ?? "", /1 file changed/);
  assert.equal(statusLines({ ...status, holds: null }).length, 1);
});
