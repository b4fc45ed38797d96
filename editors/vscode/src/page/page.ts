// The page of the view. What comes from files is only ever set as text.

import type { FileItems, Filters, Item, Shown } from "../answers";
import type { FromPage, Remedy, ToPage } from "../messages";

declare function acquireVsCodeApi(): {
  postMessage(message: FromPage): void;
  getState(): Kept | undefined;
  setState(state: Kept): void;
};

/** What is kept while the page is hidden. */
interface Kept {
  query: string;
  filters: Filters;
  isOpen: boolean;
}

/** Time after the last letter until a search begins, in milliseconds. */
const PAUSE = 200;
/** The buttons that help if nothing can be searched. */
const REMEDIES: Remedy[] = ["openFolder", "install", "choose", "lookAgain"];
/** The fields of the form that are filters. */
const NAMES = ["language", "kind", "glob", "quality", "folder"] as const;

const code = acquireVsCodeApi();

function get(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`#${id} is missing`);
  return found;
}

const form = get("search") as HTMLFormElement;
const box = get("q") as HTMLInputElement;
const toggle = get("toggle") as HTMLButtonElement;
const filterFields = get("filters");
const head = get("head");
const title = get("title");
const summary = get("summary");
const notice = get("notice");
const results = get("results");
const remedies = get("remedies");

let timer = 0;

function field(name: string): HTMLInputElement | HTMLSelectElement {
  return form.elements.namedItem(name) as HTMLInputElement | HTMLSelectElement;
}

function filters(): Filters {
  const set = NAMES.map((name) => [name, field(name).value.trim()] as const).filter(([, value]) => value !== "");
  return Object.fromEntries(set);
}

function keep(): void {
  code.setState({ query: box.value, filters: filters(), isOpen: !filterFields.hidden });
  const n = Object.keys(filters()).length;
  toggle.textContent = n > 0 ? `Filters (${n})` : "Filters";
}

function search(): void {
  clearTimeout(timer);
  keep();
  const query = box.value.trim();
  if (query === "") {
    show({ title: "", summary: "", notice: "", files: [] }, true);
    return;
  }
  code.postMessage({ type: "search", query, filters: filters() });
}

function searchSoon(): void {
  clearTimeout(timer);
  timer = setTimeout(search, PAUSE);
}

function element<K extends keyof HTMLElementTagNameMap>(name: K, className: string, ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  made.className = className;
  made.append(...children);
  return made;
}

function lineOf({ line, parts }: Item["lines"][number]): HTMLElement {
  const text = parts.map((part) => (part.isMatch ? element("mark", "", part.text) : part.text));
  return element("span", "line", element("span", "number", String(line)), element("span", "text", ...text));
}

function itemOf(item: Item): HTMLElement {
  const open = (isPreview: boolean) => {
    code.postMessage({ type: "open", uri: item.uri, startLine: item.startLine, endLine: item.endLine, isPreview });
  };
  const name = element("span", "name", item.title);
  const place = element("span", "quiet", item.detail);
  const link = element("button", "open", element("span", "heading", name, place), ...item.lines.map(lineOf));
  link.type = "button";
  link.addEventListener("click", () => {
    open(true);
  });
  link.addEventListener("dblclick", () => {
    open(false);
  });
  link.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    open(false);
  });
  const actions = element("span", "actions");
  const action = (type: "similar" | "callers" | "callees", text: string) => {
    const button = element("button", "action", text);
    button.type = "button";
    button.title = `${text}: ${item.title}`;
    button.addEventListener("click", () => {
      // A search that still waits for more letters would replace the answer.
      clearTimeout(timer);
      code.postMessage({ type, uri: item.uri, line: item.startLine });
    });
    actions.append(button);
  };
  action("similar", "Similar");
  if (item.isCallable) {
    action("callers", "Callers");
    action("callees", "Callees");
  }
  return element("li", "item", link, actions);
}

function fileOf(file: FileItems): HTMLElement {
  const heading = element("summary", "file", element("span", "name", file.name), " ", element("span", "quiet directory", file.directory), element("span", "badge", String(file.items.length)));
  heading.title = file.directory === "" ? file.name : `${file.directory}/${file.name}`;
  const details = element("details", "", heading, element("ul", "", ...file.items.map(itemOf)));
  details.open = true;
  return details;
}

function show(shown: Shown, isSearch: boolean): void {
  document.body.classList.remove("busy");
  head.hidden = isSearch;
  title.textContent = shown.title;
  summary.textContent = shown.summary;
  notice.textContent = shown.notice;
  notice.hidden = shown.notice === "";
  remedies.hidden = true;
  results.replaceChildren(...shown.files.map(fileOf));
  window.scrollTo(0, 0);
}

/** Fills a list behind its first choice; what was chosen stays, even if it is not offered now. */
function offer(name: "language" | "folder", choices: [string, string][]): void {
  const select = field(name) as HTMLSelectElement;
  const chosen = select.value;
  const all = chosen === "" || choices.some(([value]) => value === chosen) ? choices : [...choices, [chosen, chosen]];
  const options = all.map(([value, text]) => {
    const option = element("option", "", text ?? "");
    option.value = value ?? "";
    return option;
  });
  select.replaceChildren(...[...select.options].slice(0, 1), ...options);
  select.value = chosen;
}

function receive(message: ToPage): void {
  switch (message.type) {
    case "settings": {
      offer("language", message.languages.map(([name, n]) => [name, `${name} (${n.toLocaleString("en")})`]));
      offer("folder", message.folders);
      get("folders").hidden = message.folders.length < 2;
      const [none] = (field("quality") as HTMLSelectElement).options;
      if (none !== undefined) none.textContent = message.quality === "" ? "default" : `default (${message.quality})`;
      keep();
      break;
    }
    case "query":
      if (message.query !== "") {
        box.value = message.query;
        search();
      }
      box.focus();
      box.select();
      break;
    case "again":
      search();
      break;
    case "busy":
      // Asked in the editor.
      if (!message.isSearch) clearTimeout(timer);
      document.body.classList.add("busy");
      break;
    case "shown":
      show(message.shown, message.isSearch);
      break;
    case "problem":
      show({ title: "", summary: message.text, notice: "", files: [] }, true);
      remedies.hidden = message.remedies.length === 0;
      for (const type of REMEDIES) get(type).hidden = !message.remedies.includes(type);
  }
}

/** Moves the focus to another result, and shows that one. */
function move(by: number): void {
  const all = [...document.querySelectorAll<HTMLButtonElement>("details[open] .open")];
  const at = all.indexOf(document.activeElement as HTMLButtonElement) + by;
  const next = all[at];
  if (at < 0) box.focus();
  else if (next !== undefined) {
    next.focus();
    next.click();
  }
}

document.addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  const isResult = target.matches(".open");
  if ((event.key === "ArrowDown" && (target === box || isResult)) || (event.key === "ArrowUp" && isResult)) {
    event.preventDefault();
    move(target === box ? 1 : event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Escape" && target !== box) {
    box.focus();
  }
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
form.addEventListener("input", searchSoon);
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.target === toggle) return;
  event.preventDefault();
  search();
});
toggle.addEventListener("click", () => {
  filterFields.hidden = !filterFields.hidden;
  toggle.setAttribute("aria-expanded", String(!filterFields.hidden));
  keep();
});
get("back").addEventListener("click", () => {
  search();
  box.focus();
});
for (const type of REMEDIES) {
  get(type).addEventListener("click", () => {
    code.postMessage({ type });
  });
}
window.addEventListener("message", (event: MessageEvent<ToPage>) => {
  receive(event.data);
});

const kept = code.getState();
if (kept !== undefined) {
  box.value = kept.query;
  const chosen = (name: "language" | "folder"): [string, string][] => (kept.filters[name] === undefined ? [] : [[kept.filters[name], kept.filters[name]]]);
  offer("language", chosen("language"));
  offer("folder", chosen("folder"));
  for (const name of NAMES) field(name).value = kept.filters[name] ?? "";
  filterFields.hidden = !kept.isOpen;
  toggle.setAttribute("aria-expanded", String(kept.isOpen));
}
keep();
code.postMessage({ type: "ready" });
if (box.value.trim() !== "") search();
