// What the view and its page tell each other.

import type { Filters, Shown } from "./answers";

/** From the page. */
export type FromPage =
  | { type: "ready" }
  | { type: "search"; query: string; filters: Filters }
  | { type: "open"; uri: string; startLine: number; endLine: number; isPreview: boolean }
  | { type: "similar" | "callers"; uri: string; line: number }
  | { type: "choose" };

/** To the page. */
export type ToPage =
  | { type: "settings"; folders: string[]; languages: [string, number][]; quality: string }
  | { type: "query"; query: string }
  | { type: "busy" }
  | { type: "shown"; shown: Shown; isSearch: boolean }
  | { type: "problem"; text: string; canChoose: boolean };
