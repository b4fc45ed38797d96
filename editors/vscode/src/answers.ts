// What `quarry lsp` answers, and what the view shows of it.

import { type Part, counted, named, parts, printable } from "./text";

/** What narrows and orders a search. */
export interface Filters {
  language?: string;
  kind?: string;
  glob?: string;
  quality?: string;
  folder?: string;
}

export interface SearchArguments extends Filters {
  query: string;
  limit?: number;
}

/** Where something is. */
interface Place {
  uri?: string;
  root: string;
  path: string;
}

/** A result of `quarry.search` and `quarry.similar`. */
export interface Result extends Place {
  rank: number;
  score: number;
  language: string;
  start_line: number;
  end_line: number;
  name: string;
  kind: string;
  signature: string;
  snippet: string;
  snippet_line: number;
}

export interface Answer {
  results: Result[];
  confident: boolean | null;
  /** What ranked the results of a query: `best` if a transformer did, else `fast`. */
  quality?: string;
  /** Files that have changed since the index was built, while it is being updated. */
  behind?: { total: number };
  took_ms: number;
  similar_to?: { path: string; name: string; start_line: number };
}

interface Definition extends Place {
  start_line: number;
  end_line: number;
  name: string;
  kind: string;
}

/** The answer of `quarry.callers`. */
export interface Callers {
  query: string;
  definitions: Definition[];
  callers: (Place & { line: number; text: string; caller: Definition | null; certain: boolean })[];
  total: number;
  took_ms: number;
}

/** The answer of `quarry.callees`. */
export interface Callees {
  query: string;
  definitions: (Definition & {
    callees: { name: string; lines: number[]; definitions: Definition[] }[];
    unknown: { name: string }[];
    external: { name: string }[];
  })[];
  took_ms: number;
}

/** The answer of `quarry.related`. */
export interface Related {
  query: string;
  targets: Definition[];
  results: (Definition & { reasons: { evidence: string; line?: number; text?: string }[] })[];
  /** Places beyond the limit. */
  more?: { places: number };
  /** The histories of the folders; the head is null if no commit was read, as outside of a git repository. */
  history: { complete: boolean; head: string | null }[];
  took_ms: number;
}

/** The state of the index of a folder, of `quarry.status`. */
export interface Status {
  root: string;
  fresh: boolean;
  reason: string | null;
  holds: { files: number; units: number; bytes: number; units_by_language: Record<string, number> } | null;
}

/** A line of source in the view. */
export interface ShownLine {
  line: number;
  parts: Part[];
}

/** A result in the view. */
export interface Item {
  uri: string;
  /** 1-based, inclusive. */
  startLine: number;
  endLine: number;
  title: string;
  detail: string;
  lines: ShownLine[];
  /** Whether it is a definition, which others may call. */
  isCallable: boolean;
}

/** A file in the view, with its results. */
export interface FileItems {
  uri: string;
  name: string;
  directory: string;
  items: Item[];
}

/** Everything that the view shows of an answer. */
export interface Shown {
  title: string;
  summary: string;
  notice: string;
  files: FileItems[];
}

/** Lines of a result in the view, and the longest one, in characters. */
const MAX_LINES = 5;
const MAX_LINE_CHARS = 300;

/** Names in a notice. */
const MAX_NAMES = 20;

/** The address of a file, as the server gives it, else by its path. */
export function addressOf(place: Place): string {
  if (place.uri !== undefined) return place.uri;
  const path = `${place.root}/${place.path}`.replaceAll("\\", "/");
  const encoded = path.split("/").map(encodeURIComponent).join("/");
  return encoded.startsWith("/") ? `file://${encoded}` : `file:///${encoded}`;
}

/** Results by their files, in the order of the best result of each. */
function byFile<T extends Place>(all: T[], item: (one: T) => Item): FileItems[] {
  const files = new Map<string, FileItems>();
  for (const one of all) {
    const uri = addressOf(one);
    const path = printable(one.path);
    const at = path.lastIndexOf("/");
    const file = files.get(uri) ?? { uri, name: path.slice(at + 1), directory: path.slice(0, Math.max(at, 0)), items: [] };
    file.items.push(item(one));
    files.set(uri, file);
  }
  return [...files.values()];
}

/** A definition in the view, without its lines. */
function shownDefinition(place: Definition): Omit<Item, "detail" | "lines"> {
  const { name, start_line: startLine, end_line: endLine, kind } = place;
  const title = name === "" ? `lines ${startLine}–${endLine}` : printable(name);
  return { uri: addressOf(place), startLine, endLine, title, isCallable: name !== "" && ["function", "method", "type"].includes(kind) };
}

/** Source without the indentation that all its lines share. */
function shownLines(source: string, first: number, marked: (text: string) => Part[]): ShownLine[] {
  const lines = source.split("\n");
  const indents = lines.filter((line) => line.trim() !== "").map((line) => /^[ \t]*/.exec(line)?.[0].length ?? 0);
  const indent = Math.min(...indents, MAX_LINE_CHARS);
  const numbered = lines.map((line, at) => ({ line: first + at, text: line.slice(indent).trimEnd() }));
  const written = numbered.filter(({ text }) => text !== "").slice(0, MAX_LINES);
  return written.map(({ line, text }) => ({ line, parts: marked(printable(text.slice(0, MAX_LINE_CHARS))) }));
}

function itemOf(result: Result, query: string): Item {
  const lines = shownLines(result.snippet, result.snippet_line, (text) => parts(text, query));
  return { ...shownDefinition(result), detail: result.kind, lines };
}

function summaryOf(n: number, thing: string, files: FileItems[], took: number): string {
  return `${counted(n, thing)} in ${counted(files.length, "file")} · ${took.toFixed(took < 10 ? 1 : 0)} ms`;
}

/** The results of a query. */
export function shownSearch(answer: Answer, query: string): Shown {
  const files = byFile(answer.results, (result) => itemOf(result, query));
  const behind = answer.behind === undefined ? "" : ` ${counted(answer.behind.total, "file")} changed; the index is being updated.`;
  if (answer.results.length === 0) return { title: "", summary: "Nothing found", notice: `Try other words, or fewer filters.${behind}`, files };
  const unsure = answer.confident === false ? "No match clearly answers the query; showing the closest ones." : "";
  const notice = `${unsure}${behind}`.trim();
  return { title: "", summary: summaryOf(answer.results.length, "result", files, answer.took_ms), notice, files };
}

/** Code that is similar to some other code. */
export function shownSimilar(answer: Answer): Shown {
  const files = byFile(answer.results, (result) => itemOf(result, ""));
  const given = answer.similar_to;
  const name = given === undefined ? "" : printable(given.name === "" ? `${given.path}:${given.start_line}` : given.name);
  const summary = answer.results.length === 0 ? "Nothing found" : summaryOf(answer.results.length, "result", files, answer.took_ms);
  return { title: `Similar to ${name}`, summary, notice: "", files };
}

/** The places that call something. */
export function shownCallers(answer: Callers): Shown {
  const name = answer.definitions[0]?.name ?? answer.query;
  const files = byFile(answer.callers, (site) => ({
    uri: addressOf(site),
    startLine: site.line,
    endLine: site.line,
    title: site.caller === null || site.caller.name === "" ? `line ${site.line}` : printable(site.caller.name),
    detail: site.certain ? "" : "matched by name only",
    lines: shownLines(site.text.trim(), site.line, (text) => named(text, name)),
    isCallable: false,
  }));
  const summary = answer.callers.length === 0 ? "No calls found" : summaryOf(answer.total, "call", files, answer.took_ms);
  const left = answer.total - answer.callers.length;
  return { title: `Callers of ${printable(name)}`, summary, notice: left > 0 ? `${counted(left, "call")} not shown.` : "", files };
}

/** The definitions of what something calls. */
export function shownCallees(answer: Callees): Shown {
  const [first] = answer.definitions;
  const called = answer.definitions.flatMap(({ callees }) => callees.flatMap(({ definitions }) => definitions));
  const files = byFile(called, (definition) => ({ ...shownDefinition(definition), detail: definition.kind, lines: [] }));
  const summary = called.length === 0 ? "No called definition found" : summaryOf(called.length, "definition", files, answer.took_ms);
  const names = answer.definitions.flatMap(({ unknown, external }) => [...unknown, ...external].map(({ name }) => name));
  const others = [...new Set(names)].map(printable);
  const notice = others.length === 0 ? "" : `Also called, without a definition here: ${others.slice(0, MAX_NAMES).join(", ")}${others.length > MAX_NAMES ? ", …" : ""}`;
  return { title: `Called by ${printable(first?.name ?? answer.query)}`, summary, notice, files };
}

/** Places that may have to change with a definition. */
export function shownRelated(answer: Related): Shown {
  const name = printable(answer.targets[0]?.name || answer.query);
  const files = byFile(answer.results, (place) => ({
    ...shownDefinition(place),
    detail: printable(place.reasons[0]?.evidence ?? ""),
    lines: place.reasons.flatMap(({ line, text }) => (line === undefined || text === undefined ? [] : shownLines(text.trim(), line, (one) => named(one, name)))),
  }));
  const summary = answer.results.length === 0 ? "Nothing found" : summaryOf(answer.results.length, "place", files, answer.took_ms);
  const left = answer.more?.places ?? 0;
  const notice = [
    left > 0 ? `${counted(left, "place")} not shown.` : "",
    answer.history.some(({ complete, head }) => !complete && head !== null) ? "Not all commits have been read yet." : "",
  ].join(" ").trim();
  return { title: `Related to ${name}`, summary, notice, files };
}

/** Folders of a workspace by their addresses, with names that differ. */
export function foldersOf(folders: { uri: string; path: string; name: string }[]): [uri: string, name: string][] {
  const isShared = (name: string) => folders.filter((folder) => folder.name === name).length > 1;
  return folders.map(({ uri, path, name }) => [uri, printable(isShared(name) ? `${name} (${path})` : name)]);
}

/** What a search sends: filters that are set. */
export function searchArguments(query: string, filters: Filters, limit: number | undefined): SearchArguments {
  const set = Object.entries(filters).map(([name, value]) => [name, (value as string).trim()] as const);
  return { query: query.trim(), ...(limit === undefined ? {} : { limit }), ...(Object.fromEntries(set.filter(([, value]) => value !== "")) as Filters) };
}

/** The languages of all indexes with their numbers of units, the most frequent first. */
export function languagesOf(folders: Status[]): [string, number][] {
  const sums = new Map<string, number>();
  for (const [language, n] of folders.flatMap(({ holds }) => Object.entries(holds?.units_by_language ?? {}))) {
    sums.set(language, (sums.get(language) ?? 0) + n);
  }
  return [...sums].sort(([, a], [, b]) => b - a);
}

/** The state of all indexes in a few words. */
export function statusText(folders: Status[]): string {
  const holds = folders.flatMap((folder) => (folder.holds === null ? [] : [folder.holds]));
  if (holds.length === 0) return "no index yet";
  return counted(holds.reduce((sum, { units }) => sum + units, 0), "unit");
}

/** The state of the index of a folder, line by line. */
export function statusLines(folder: Status): string[] {
  if (folder.holds === null) return ["No index yet: the first search builds it"];
  const { files, units, bytes } = folder.holds;
  const ratio = languagesOf([folder]).slice(0, 5).map(([language, n]) => `${printable(language)} ${n.toLocaleString("en")}`);
  return [
    `${counted(units, "unit")} in ${counted(files, "file")}, ${(bytes / 1e6).toFixed(1)} MB`,
    folder.fresh ? "Up to date" : `Will be refreshed: ${printable(folder.reason ?? "files changed")}`,
    ...(ratio.length > 0 ? [ratio.join(" · ")] : []),
  ];
}
