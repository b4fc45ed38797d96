// Text of files and of queries.

/** Characters that hide text, change its direction or control a terminal. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Untrusted text, with the codes of characters that could make it look like other text. */
export function printable(text: string): string {
  return text.replace(HIDDEN, (c) => `U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
}

/** `n` things, in words. */
export function counted(n: number, thing: string): string {
  return `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;
}

/** Parts of a text, of which some match a query. */
export interface Part {
  text: string;
  isMatch: boolean;
}

/** Endings that do not count when words are compared. */
const ENDINGS = /(?:ings?|ed|es|e|s)$/;
/** The shortest rest of a word without its ending. */
const MIN_STEM = 3;

function stem(word: string): string {
  const lower = word.toLowerCase();
  const rest = lower.replace(ENDINGS, "");
  return rest.length >= MIN_STEM ? rest : lower;
}

/** The words of code and English: `readFile` and `read_file` are two. */
function* words(text: string): Generator<{ start: number; end: number; stem: string }> {
  for (const match of text.matchAll(/\p{Lu}+(?!\p{Ll})|\p{Lu}?\p{Ll}+|\p{Lo}+|\d+/gu)) {
    yield { start: match.index, end: match.index + match[0].length, stem: stem(match[0]) };
  }
}

/** Words that are in most lines. */
const COMMON = new Set(["the", "and", "for", "with", "that", "this", "are", "not", "from", "into", "its"].map(stem));

/** A text in parts, so that words of the query can be marked. */
export function parts(text: string, query: string): Part[] {
  const wanted = new Set([...words(query)].map((word) => word.stem).filter((word) => word.length >= MIN_STEM && !COMMON.has(word)));
  return divided(text, [...words(text)].filter((word) => wanted.has(word.stem)));
}

/** A text in parts, so that a name such as `Index.open` can be marked where its last part stands as a whole. */
export function named(text: string, name: string): Part[] {
  const last = name.split(/[.:#]/).at(-1);
  const identifiers = [...text.matchAll(/[\p{L}\p{N}_$]+/gu)].filter(([identifier]) => identifier === last);
  return divided(text, identifiers.map(({ index, 0: { length } }) => ({ start: index, end: index + length })));
}

/** A text in parts, of which the given ones match. */
function divided(text: string, matches: { start: number; end: number }[]): Part[] {
  const found: Part[] = [];
  let end = 0;
  const push = (to: number, isMatch: boolean) => {
    if (to > end) found.push({ text: text.slice(end, to), isMatch });
    end = Math.max(end, to);
  };
  for (const match of matches) {
    push(match.start, false);
    push(match.end, true);
  }
  push(text.length, false);
  return found;
}
