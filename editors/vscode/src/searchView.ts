// The view with the search: what its page asks, and what it is told.

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";

import { type Filters, type Shown, foldersOf, searchArguments, shownCallees, shownCallers, shownRelated, shownSearch, shownSimilar } from "./answers";
import type { FromPage, Remedy, ToPage } from "./messages";
import { type Server, isCancelled } from "./server";

/** Why nothing can be asked now. */
export class NotReady extends Error {
  constructor(
    message: string,
    readonly remedies: Remedy[],
  ) {
    super(message);
  }
}

export class SearchView implements vscode.WebviewViewProvider, vscode.Disposable {
  static readonly id = "quarry.view";

  private view: vscode.WebviewView | undefined;
  private isReady = false;
  /** True while the page shows a problem instead of an answer. */
  private hasProblem = false;
  /** What a page is told that is not there yet. */
  private waiting: ToPage[] = [];
  private languages: [string, number][] = [];
  private running: vscode.CancellationTokenSource | undefined;
  private readonly highlight = vscode.window.createTextEditorDecorationType({
    backgroundColor: new vscode.ThemeColor("editor.rangeHighlightBackground"),
    isWholeLine: true,
  });

  constructor(
    private readonly extension: vscode.Uri,
    /** The server; rejected with [`NotReady`] if there is none. */
    private readonly server: () => Promise<Server>,
    private readonly remedies: Record<Remedy, () => Promise<void>>,
    /** Called after an answer as long as the languages of the index are not known. */
    private readonly updateStatus: (server: Server) => Promise<void>,
  ) {}

  dispose(): void {
    this.running?.dispose();
    this.highlight.dispose();
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    this.isReady = false;
    const { webview } = view;
    webview.options = { enableScripts: true, localResourceRoots: [vscode.Uri.joinPath(this.extension, "dist"), vscode.Uri.joinPath(this.extension, "media")] };
    webview.onDidReceiveMessage((message: FromPage) => this.receive(message));
    view.onDidDispose(() => {
      this.view = undefined;
      this.isReady = false;
    });
    webview.html = this.html(webview);
  }

  /** Shows the view, with a query if there is one. */
  async show(query: string): Promise<void> {
    await vscode.commands.executeCommand(`${SearchView.id}.focus`);
    this.tell({ type: "query", query });
  }

  /** Shows code that is similar to that of a line, from 0. */
  async showSimilar(uri: string, line: number): Promise<void> {
    await this.answer(async (server, token) => shownSimilar(await server.similar(uri, line, limit(), token)), false);
  }

  /** Shows what calls the definition at a line, from 0. */
  async showCallers(uri: string, line: number): Promise<void> {
    await this.answer(async (server, token) => shownCallers(await server.callers(uri, line, token)), false);
  }

  /** Shows what the definition at a line, from 0, calls. */
  async showCallees(uri: string, line: number): Promise<void> {
    await this.answer(async (server, token) => shownCallees(await server.callees(uri, line, token)), false);
  }

  /** Shows the places that may have to change with the definition at a line, from 0, for any reason or for these. */
  async showRelated(uri: string, line: number, kinds: string[] = []): Promise<void> {
    await this.answer(async (server, token) => shownRelated(await server.related(uri, line, kinds, token)), false);
  }

  /** Offers the languages of the indexes as filters. */
  setLanguages(languages: [string, number][]): void {
    this.languages = languages;
    this.tellSettings();
  }

  /** Tells the page what its filters can be. */
  tellSettings(): void {
    if (!this.isReady) return;
    const folders = foldersOf((vscode.workspace.workspaceFolders ?? []).map(({ uri, name }) => ({ uri: uri.toString(), path: uri.fsPath, name })));
    this.tell({ type: "settings", folders, languages: this.languages, quality: setting("quality") ?? "" });
  }

  private tell(message: ToPage): void {
    if (this.view !== undefined && this.isReady) void this.view.webview.postMessage(message);
    else this.waiting.push(message);
  }

  private async receive(message: FromPage): Promise<void> {
    switch (message.type) {
      case "ready": {
        this.isReady = true;
        this.tellSettings();
        const waiting = this.waiting.splice(0);
        for (const one of waiting) this.tell(one);
        // A page that was hidden has forgotten it.
        if (this.hasProblem) await this.again();
        return;
      }
      case "search":
        return this.search(message.query, message.filters);
      case "open":
        return this.open(message);
      case "similar":
        return this.showSimilar(message.uri, message.line - 1);
      case "callers":
        return this.showCallers(message.uri, message.line - 1);
      case "callees":
        return this.showCallees(message.uri, message.line - 1);
      case "openFolder":
      case "install":
        return this.remedies[message.type]();
      case "choose":
      case "lookAgain":
        await this.remedies[message.type]();
        return this.again();
    }
  }

  private async search(query: string, filters: Filters): Promise<void> {
    const wanted = searchArguments(query, filters, limit());
    await this.answer(async (server, token) => shownSearch(await server.search(wanted, token), query), true);
  }

  /** Asks, and shows the answer unless something else is asked meanwhile. */
  private async answer(ask: (server: Server, token: vscode.CancellationToken) => Promise<Shown>, isSearch: boolean): Promise<void> {
    if (!isSearch) await vscode.commands.executeCommand(`${SearchView.id}.focus`);
    this.running?.cancel();
    this.running?.dispose();
    const mine = (this.running = new vscode.CancellationTokenSource());
    this.tell({ type: "busy", isSearch });
    try {
      const server = await this.server();
      const shown = await ask(server, mine.token);
      if (this.running === mine) {
        this.hasProblem = false;
        this.tell({ type: "shown", shown, isSearch });
      }
      // The first search builds the index.
      if (this.languages.length === 0) void this.updateStatus(server);
    } catch (error) {
      if (this.running !== mine || isCancelled(error)) return;
      this.showProblem(error);
    }
  }

  /** Has the server run, and repeats a search that a problem replaced; shows what the problem is now, if there is one. */
  async again(): Promise<void> {
    try {
      await this.server();
      if (this.hasProblem) this.tell({ type: "again" });
      this.hasProblem = false;
    } catch (error) {
      this.showProblem(error);
    }
  }

  /** Shows why nothing can be searched, and what can be done about it. */
  private showProblem(error: unknown): void {
    this.hasProblem = true;
    const text = error instanceof Error ? error.message : String(error);
    this.tell({ type: "problem", text, remedies: error instanceof NotReady ? error.remedies : [] });
  }

  /** Opens lines of a file; a preview leaves the focus where it is, and is replaced by the next one. */
  private async open({ uri, startLine, endLine, isPreview }: Extract<FromPage, { type: "open" }>): Promise<void> {
    const address = vscode.Uri.parse(uri, true);
    if (address.scheme !== "file") return;
    try {
      const document = await vscode.workspace.openTextDocument(address);
      const last = document.lineCount - 1;
      const lines = [startLine - 1, endLine - 1].map((line) => Math.max(0, Math.min(line, last))) as [number, number];
      const start = new vscode.Position(lines[0], 0);
      const editor = await vscode.window.showTextDocument(document, { preview: isPreview, preserveFocus: isPreview, selection: new vscode.Range(start, start) });
      editor.revealRange(new vscode.Range(start, start), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
      for (const other of vscode.window.visibleTextEditors) if (other !== editor) other.setDecorations(this.highlight, []);
      editor.setDecorations(this.highlight, isPreview ? [new vscode.Range(start, document.lineAt(lines[1]).range.end)] : []);
    } catch (error) {
      void vscode.window.showErrorMessage(`Quarry: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  private html(webview: vscode.Webview): string {
    const nonce = randomBytes(18).toString("base64url");
    const of = (...parts: string[]) => webview.asWebviewUri(vscode.Uri.joinPath(this.extension, ...parts)).toString();
    const policy = `default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`;
    return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Quarry</title>
<link rel="stylesheet" href="${of("media", "search.css")}">
</head>
<body>
<form id="search" role="search">
<div class="row">
<input id="q" type="text" aria-label="What the code does, or the name of a symbol" placeholder="What does the code do?" maxlength="1000" spellcheck="false" autocomplete="off">
<button id="toggle" type="button" aria-expanded="false" aria-controls="filters">Filters</button>
</div>
<div id="filters" hidden>
<label>Language <select name="language"><option value="">any</option></select></label>
<label>Kind <select name="kind"><option value="">any</option><option>function</option><option>method</option><option>type</option><option>module</option><option>section</option></select></label>
<label>Files <input name="glob" placeholder="src/**" spellcheck="false" autocomplete="off"></label>
<label>Quality <select name="quality"><option value="">default</option><option>auto</option><option>fast</option><option>best</option></select></label>
<label id="folders" hidden>Folder <select name="folder"><option value="">all</option></select></label>
</div>
</form>
<div id="head" hidden><h2 id="title"></h2><button id="back" type="button">Back to search</button></div>
<p id="summary" role="status"></p>
<p id="notice" hidden></p>
<div id="remedies" hidden>
<button id="openFolder" type="button" hidden>Open a folder…</button>
<button id="install" type="button" hidden>How to install it</button>
<button id="choose" type="button" hidden>Choose the program…</button>
<button id="lookAgain" type="button" hidden>Look again</button>
</div>
<div id="results"></div>
<script nonce="${nonce}" src="${of("dist", "page.js")}"></script>
</body>
</html>`;
  }
}

/** A setting of this extension; undefined if it is unset, so that the settings of the folder decide. */
export function setting(name: "quality"): string | undefined;
export function setting(name: "limit"): number | undefined;
export function setting(name: string): unknown {
  return vscode.workspace.getConfiguration("quarry").get(name) ?? undefined;
}

function limit(): number | undefined {
  return setting("limit");
}
