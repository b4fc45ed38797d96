// What the view and its page tell each other.

import type { Filters, Shown } from "./answers";

/** A step that the user can take if nothing can be searched. */
export type Remedy = "openFolder" | "install" | "choose" | "lookAgain";

/** From the page. */
export type FromPage =
  | { type: "ready" }
  | { type: "search"; query: string; filters: Filters }
  | { type: "open"; uri: string; startLine: number; endLine: number; isPreview: boolean }
  | { type: "similar" | "callers" | "callees"; uri: string; line: number }
  | { type: Remedy };

/** To the page. */
export type ToPage =
  | { type: "settings"; folders: [uri: string, name: string][]; languages: [string, number][]; quality: string }
  | { type: "query"; query: string }
  | { type: "again" }
  | { type: "busy"; isSearch: boolean }
  | { type: "shown"; shown: Shown; isSearch: boolean }
  | { type: "problem"; text: string; remedies: Remedy[] };
