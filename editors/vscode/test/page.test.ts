import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { test } from "node:test";

import { Window } from "happy-dom";

import type { Shown } from "../src/answers";
import type { FromPage, ToPage } from "../src/messages";

/** Longer than the page waits for the next letter. */
const LONGER = 400;

const SHOWN: Shown = {
  title: "", summary: "1 result", notice: "",
  files: [{ uri: "file:///a.py", name: "a.py", directory: "", items: [{ uri: "file:///a.py", startLine: 4, endLine: 9, title: "pay", detail: "function", lines: [], isCallable: true }] }],
};

/** The page of the view, with what it sends. */
function page(): { window: Window; sent: FromPage[]; tell: (message: ToPage) => void; type: (text: string) => void; click: (selector: string) => void } {
  const view = readFileSync("src/searchView.ts", "utf8");
  const body = /<body>([\s\S]*)<script/.exec(view)?.[1];
  assert.ok(body !== undefined, "the page has a body");
  const window = new Window({ settings: { enableJavaScriptEvaluation: true, suppressInsecureJavaScriptEnvironmentWarning: true } });
  const sent: FromPage[] = [];
  Object.assign(window, { acquireVsCodeApi: () => ({ postMessage: (message: FromPage) => sent.push(message), getState: () => undefined, setState: () => undefined }) });
  window.document.body.innerHTML = body;
  window.eval(readFileSync("dist/page.js", "utf8"));
  const find = (selector: string) => {
    const found = window.document.querySelector(selector);
    assert.ok(found !== null, selector);
    return found;
  };
  return {
    window,
    sent,
    tell: (message) => { window.dispatchEvent(new window.MessageEvent("message", { data: message })); },
    type: (text) => {
      Object.assign(find("#q"), { value: text });
      find("#q").dispatchEvent(new window.Event("input", { bubbles: true }));
    },
    click: (selector) => { find(selector).dispatchEvent(new window.MouseEvent("click", { bubbles: true })); },
  };
}

test("what is asked of a result is not replaced by the search that waits for more letters", async () => {
  const { window, sent, tell, type, click } = page();
  tell({ type: "shown", shown: SHOWN, isSearch: true });
  type("pay");
  click(".action");
  await pause(LONGER);
  assert.deepEqual(sent.map((message) => message.type), ["ready", "similar"]);
  // Nor are answers to commands of the editor.
  type("pay once");
  tell({ type: "busy", isSearch: false });
  await pause(LONGER);
  assert.deepEqual(sent.map((message) => message.type), ["ready", "similar"]);
  // A search that runs does not stop the next one.
  type("pay twice");
  tell({ type: "busy", isSearch: true });
  await pause(LONGER);
  assert.equal(sent.at(-1)?.type, "search");
  await window.happyDOM.close();
});

test("folders are filters by their addresses", async () => {
  const { window, sent, tell, type } = page();
  tell({ type: "settings", folders: [["file:///one/src", "src (/one/src)"], ["file:///two/src", "src (/two/src)"]], languages: [], quality: "fast" });
  Object.assign(window.document.querySelector("[name=folder]") ?? {}, { value: "file:///two/src" });
  type("pay");
  await pause(LONGER);
  // It comes from another realm.
  const last: unknown = JSON.parse(JSON.stringify(sent.at(-1)));
  assert.deepEqual(last, { type: "search", query: "pay", filters: { folder: "file:///two/src" } });
  await window.happyDOM.close();
});

test("a problem has the buttons that help", async () => {
  const { window, sent, tell, click } = page();
  const isHidden = (id: string) => window.document.getElementById(id)?.hasAttribute("hidden");
  assert.equal(isHidden("remedies"), true);
  tell({ type: "problem", text: "no folder", remedies: ["openFolder"] });
  assert.deepEqual(["remedies", "openFolder", "install"].map(isHidden), [false, false, true]);
  tell({ type: "problem", text: "no program", remedies: ["install", "choose", "lookAgain"] });
  assert.deepEqual(["remedies", "openFolder", "install"].map(isHidden), [false, true, false]);
  for (const id of ["install", "choose", "lookAgain"]) click(`#${id}`);
  assert.deepEqual(sent.slice(1).map((message) => message.type), ["install", "choose", "lookAgain"]);
  await window.happyDOM.close();
});

test("without a query, a problem stays until it is solved", async () => {
  const { window, tell, click } = page();
  const summary = () => window.document.querySelector("#summary")?.textContent;
  tell({ type: "problem", text: "no program", remedies: ["lookAgain"] });
  click("#lookAgain");
  assert.equal(summary(), "no program");
  tell({ type: "again" });
  assert.equal(summary(), "");
  await window.happyDOM.close();
});
