// Search by meaning in Visual Studio Code: starts `quarry lsp`, and registers the view and the commands.

import * as vscode from "vscode";

import { languagesOf } from "./answers";
import type { Remedy } from "./messages";
import { BUNDLED, type Program, places, programs, versionOf } from "./program";
import { NotReady, SearchView, setting } from "./searchView";
import { Server } from "./server";
import { StatusItem, showStatus } from "./status";
import { printable } from "./text";

/** Time after the last saved file until the state of the index is asked for, in milliseconds. */
const PAUSE = 2000;
/** Remedies if no program is found. */
const NO_PROGRAM: Remedy[] = ["install", "choose", "lookAgain"];

class Extension implements vscode.Disposable {
  private readonly log = vscode.window.createOutputChannel("Quarry", { log: true });
  private readonly status = new StatusItem();
  private readonly view: SearchView;
  private server: Promise<Server> | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly context: vscode.ExtensionContext) {
    const remedies = {
      openFolder: async () => { await vscode.commands.executeCommand("vscode.openFolder"); },
      install: () => this.showInstallation(),
      choose: () => this.choose(),
      lookAgain: () => this.stop(),
    };
    this.view = new SearchView(context.extensionUri, () => this.running(), remedies, (server) => this.updateStatus(server));
    const command = (name: string, run: (...given: unknown[]) => unknown) => vscode.commands.registerCommand(name, run);
    context.subscriptions.push(
      this,
      this.view,
      vscode.window.registerWebviewViewProvider(SearchView.id, this.view),
      command("quarry.searchCode", () => this.view.show(selectedText())),
      command("quarry.showSimilar", () => this.atCursor((uri, line) => this.view.showSimilar(uri, line))),
      command("quarry.showCallers", () => this.atCursor((uri, line) => this.view.showCallers(uri, line))),
      command("quarry.showCallees", () => this.atCursor((uri, line) => this.view.showCallees(uri, line))),
      command("quarry.showRelated", () => this.atCursor((uri, line) => this.view.showRelated(uri, line))),
      command("quarry.showStatus", () => this.showStatus()),
      command("quarry.refreshIndex", () => this.refresh()),
      command("quarry.chooseProgram", () => this.choose()),
      command("quarry.restartServer", () => this.restart()),
      command("quarry.showLog", () => { this.log.show(); }),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("quarry.quality")) this.view.tellSettings();
        if (event.affectsConfiguration("quarry.path") || event.affectsConfiguration("quarry.quality")) void this.restart();
      }),
      vscode.workspace.onDidChangeWorkspaceFolders(() => { this.view.tellSettings(); }),
      vscode.workspace.onDidSaveTextDocument(() => { this.updateLater(); }),
    );
    void this.restart();
  }

  dispose(): void {
    clearTimeout(this.timer);
    void this.stop();
    this.status.dispose();
    this.log.dispose();
  }

  async stop(): Promise<void> {
    const server = this.server;
    this.server = undefined;
    await server?.then((running) => running.stop()).catch(() => undefined);
  }

  /** The server, which is started if it does not run. */
  private running(): Promise<Server> {
    if (this.server === undefined) {
      const started = (this.server = this.start());
      // Started anew by what needs it next.
      started.catch((error: unknown) => {
        if (this.server === started) this.server = undefined;
        this.status.failed(textOf(error));
      });
    }
    return this.server;
  }

  private async start(): Promise<Server> {
    this.status.starting();
    if ((vscode.workspace.workspaceFolders ?? []).length === 0) throw new NotReady("Open a folder to search its code.", ["openFolder"]);
    const program = await this.program();
    this.log.info(`${program.file}: quarry ${program.version}, ${program.origin}`);
    const onEnd = (reason: string) => {
      this.server = undefined;
      this.status.failed(reason);
    };
    // A lens counts tests, and names a file that changes with the definition.
    const showCounted = (uri: string, line: number) => this.view.showRelated(uri, line, ["test", "change"]);
    const server = await Server.start(program.file, setting("quality"), this.log, onEnd, showCounted);
    void this.updateStatus(server);
    return server;
  }

  private async restart(): Promise<void> {
    await this.stop();
    await this.view.again();
  }

  /** The program of the setting, else the only one that is found; of several the user chooses. */
  private async program(): Promise<Program> {
    const set = vscode.workspace.getConfiguration("quarry").get("path", "").trim();
    if (set !== "") {
      const version = await versionOf(set);
      if (version === undefined) throw new NotReady(`quarry.path: expected the program quarry, found ${printable(set)}`, NO_PROGRAM);
      return { file: set, version, origin: "setting quarry.path" };
    }
    const [first, ...others] = await this.found();
    if (first === undefined) throw new NotReady("Quarry searches with the program quarry, which was not found on PATH or in a Python environment.", NO_PROGRAM);
    if (others.length > 0 && first.origin !== BUNDLED) {
      this.offerChoice();
      this.log.info(`quarry was found ${1 + others.length} times; quarry.path chooses one`);
    }
    return first;
  }

  private found(): Promise<Program[]> {
    // A folder that is not trusted must not choose what runs.
    const folders = vscode.workspace.isTrusted ? (vscode.workspace.workspaceFolders ?? []) : [];
    return programs(places(this.context.extensionPath, folders.map(({ uri }) => uri.fsPath)));
  }

  private offerChoice(): void {
    const choose = "Choose";
    void vscode.window.showInformationMessage("Quarry: several programs were found; the first one on PATH is used.", choose).then((answer) => {
      if (answer === choose) return this.choose();
      return undefined;
    });
  }

  /** Has the user choose the program, and keeps that in the settings. */
  private async choose(): Promise<void> {
    const found = await this.found();
    const other = { label: "$(folder-opened) Another file…", file: "" };
    const choices = found.map(({ file, version, origin }) => ({ label: printable(file), description: `${version}, ${origin}`, file }));
    const chosen = await vscode.window.showQuickPick([...choices, other], {
      title: "Quarry: Choose the Program",
      placeHolder: found.length > 0 ? "The program that searches" : "None found; choose its file",
    });
    if (chosen === undefined) return;
    const file = chosen.file === "" ? await askForFile() : chosen.file;
    if (file === undefined) return;
    if ((await versionOf(file)) === undefined) {
      void vscode.window.showErrorMessage(`Quarry: expected the program quarry, found ${printable(file)}`);
      return;
    }
    // A change starts the server anew.
    await vscode.workspace.getConfiguration("quarry").update("path", file, vscode.ConfigurationTarget.Global);
    await this.running().catch(() => undefined);
  }

  /** Shows how the program is installed, in the README, by its name in a package. */
  private async showInstallation(): Promise<void> {
    const readme = vscode.Uri.joinPath(this.context.extensionUri, "readme.md").with({ fragment: "install-the-program" });
    await vscode.commands.executeCommand("markdown.showPreview", readme);
  }

  private async atCursor(show: (uri: string, line: number) => Promise<void>): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (editor?.document.uri.scheme !== "file") {
      void vscode.window.showInformationMessage("Quarry: open a file, and place the cursor in a function.");
      return;
    }
    await show(editor.document.uri.toString(), editor.selection.active.line);
  }

  private async showStatus(): Promise<void> {
    const source = new vscode.CancellationTokenSource();
    try {
      await showStatus(await (await this.running()).status(source.token), undefined);
    } catch (error) {
      await showStatus(undefined, textOf(error));
    } finally {
      source.dispose();
    }
  }

  private async refresh(): Promise<void> {
    const options = { location: vscode.ProgressLocation.Window, title: "Quarry: refreshing the index" };
    await vscode.window.withProgress(options, async (_, token) => {
      try {
        const server = await this.running();
        await server.refresh(token);
        await this.updateStatus(server);
      } catch (error) {
        void vscode.window.showErrorMessage(`Quarry: ${textOf(error)}`);
      }
    });
  }

  private async updateStatus(server: Server): Promise<void> {
    this.view.setLanguages(languagesOf(await this.status.update(server)));
  }

  private updateLater(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.server?.then((server) => this.updateStatus(server)).catch(() => undefined), PAUSE);
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** What is selected in the editor, if it can be a query. */
function selectedText(): string {
  const editor = vscode.window.activeTextEditor;
  const text = editor === undefined ? "" : editor.document.getText(editor.selection).trim();
  return text.includes("\n") ? "" : text.slice(0, 1000);
}

async function askForFile(): Promise<string | undefined> {
  const [file] = (await vscode.window.showOpenDialog({ title: "The program quarry", canSelectMany: false })) ?? [];
  return file?.fsPath;
}

let extension: Extension | undefined;

export function activate(context: vscode.ExtensionContext): void {
  extension = new Extension(context);
}

export async function deactivate(): Promise<void> {
  await extension?.stop();
}
