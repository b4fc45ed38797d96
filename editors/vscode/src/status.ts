// The state of the index in the status bar, and in a list.

import * as vscode from "vscode";

import { type Status, statusLines, statusText } from "./answers";
import { type Server, isCancelled } from "./server";
import { printable } from "./text";

export class StatusItem implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("quarry.status", vscode.StatusBarAlignment.Right, 90);

  constructor() {
    this.item.name = "Quarry";
    this.item.command = "quarry.showStatus";
    this.starting();
    this.item.show();
  }

  dispose(): void {
    this.item.dispose();
  }

  starting(): void {
    this.set("$(sync~spin) Quarry", "Quarry: starting");
  }

  failed(reason: string): void {
    this.set("$(warning) Quarry", `Quarry: ${printable(reason)}`);
  }

  /** Asks the server for the state of the indexes, and shows it. */
  async update(server: Server): Promise<Status[]> {
    const source = new vscode.CancellationTokenSource();
    try {
      const folders = await server.status(source.token);
      this.set("$(search) Quarry", `Quarry: ${statusText(folders)}`);
      return folders;
    } catch (error) {
      if (!isCancelled(error)) this.failed(error instanceof Error ? error.message : String(error));
      return [];
    } finally {
      source.dispose();
    }
  }

  private set(text: string, tooltip: string): void {
    this.item.text = text;
    this.item.tooltip = tooltip;
    this.item.accessibilityInformation = { label: tooltip, role: "button" };
  }
}

interface Choice extends vscode.QuickPickItem {
  command?: string;
}

/** Lists the states of the indexes, with what can be done. */
export async function showStatus(folders: Status[] | undefined, problem: string | undefined): Promise<void> {
  const choices: Choice[] = [];
  if (problem !== undefined) choices.push({ label: "$(warning) Not running", detail: printable(problem) });
  for (const folder of folders ?? []) {
    const [first = "", ...others] = statusLines(folder);
    choices.push({ label: `$(database) ${printable(folder.root)}`, description: first, detail: others.join(" – ") });
  }
  choices.push({ label: "", kind: vscode.QuickPickItemKind.Separator });
  if (folders !== undefined) choices.push({ label: "$(refresh) Refresh the index", command: "quarry.refreshIndex" });
  choices.push({ label: "$(file-binary) Choose the program", command: "quarry.chooseProgram" });
  choices.push({ label: "$(debug-restart) Restart the server", command: "quarry.restartServer" });
  choices.push({ label: "$(output) Show the log", command: "quarry.showLog" });
  const chosen = await vscode.window.showQuickPick(choices, { title: "Quarry", placeHolder: "State of the index" });
  if (chosen?.command !== undefined) await vscode.commands.executeCommand(chosen.command);
}
