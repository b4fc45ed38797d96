// The language server `quarry lsp`.

import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  LSPErrorCodes,
  type Middleware,
  ResponseError,
  RevealOutputChannelOn,
} from "vscode-languageclient/node";

import type { Answer, Callees, Callers, Related, SearchArguments, Status } from "./answers";

/** The command of the server's code lenses too. */
const RELATED = "quarry.related";
/** As many as a lens counts. */
const MAX_RELATED = 50;

/** The server, while it runs. */
export class Server {
  private constructor(private readonly client: LanguageClient) {}

  static async start(
    program: string,
    quality: string | undefined,
    log: vscode.LogOutputChannel,
    onEnd: (reason: string) => void,
    /** Shows the places that a code lens counts. */
    showCounted: (uri: string, line: number) => Promise<void>,
  ): Promise<Server> {
    const options: LanguageClientOptions = {
      // Weaker than any selector that names a language, so that the call hierarchy of another server is shown if there is
      // one.
      documentSelector: [{ language: "*" }],
      initializationOptions: quality === undefined ? {} : { quality },
      outputChannel: log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      middleware: middleware(showCounted),
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue }),
        closed: () => {
          onEnd("quarry lsp ended; see its log");
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
      initializationFailedHandler: () => false,
    };
    const client = new LanguageClient("quarry", "Quarry", { command: program, args: ["lsp"] }, options);
    await client.start();
    return new Server(client);
  }

  async stop(): Promise<void> {
    if (this.client.isRunning()) await this.client.stop();
  }

  search(wanted: SearchArguments, token: vscode.CancellationToken): Promise<Answer> {
    return this.execute("quarry.search", [wanted], token);
  }

  similar(uri: string, line: number, limit: number | undefined, token: vscode.CancellationToken): Promise<Answer> {
    return this.execute("quarry.similar", [{ uri, line, limit }], token);
  }

  callers(uri: string, line: number, token: vscode.CancellationToken): Promise<Callers> {
    return this.execute("quarry.callers", [{ uri, line }], token);
  }

  callees(uri: string, line: number, token: vscode.CancellationToken): Promise<Callees> {
    return this.execute("quarry.callees", [{ uri, line }], token);
  }

  /** Places that may have to change with a definition, for any reason or for these. */
  related(uri: string, line: number, kinds: string[], token: vscode.CancellationToken): Promise<Related> {
    return this.execute(RELATED, [{ uri, line, kinds, limit: MAX_RELATED }], token);
  }

  async status(token: vscode.CancellationToken): Promise<Status[]> {
    const status = await this.execute<Status | Status[]>("quarry.status", [], token);
    return Array.isArray(status) ? status : [status];
  }

  async refresh(token: vscode.CancellationToken): Promise<void> {
    await this.execute("quarry.refresh", [], token);
  }

  private execute<T>(command: string, wanted: unknown[], token: vscode.CancellationToken): Promise<T> {
    return this.client.sendRequest<T>("workspace/executeCommand", { command, arguments: wanted }, token);
  }
}

/** Whether a request was given up. */
export function isCancelled(error: unknown): boolean {
  const codes: number[] = [LSPErrorCodes.RequestCancelled, LSPErrorCodes.ContentModified];
  return error instanceof vscode.CancellationError || (error instanceof ResponseError && codes.includes(error.code));
}

function middleware(showCounted: (uri: string, line: number) => Promise<void>): Middleware {
  const isFile = (document: vscode.TextDocument) => document.uri.scheme === "file";
  let isAskingOthers = false;
  return {
    // Output panels, settings and revisions are no files of a folder.
    didOpen: async (document, next) => (isFile(document) ? next(document) : undefined),
    didChange: async (event, next) => (isFile(event.document) ? next(event) : undefined),
    didSave: async (document, next) => (isFile(document) ? next(document) : undefined),
    didClose: async (document, next) => (isFile(document) ? next(document) : undefined),
    // Visual Studio Code does nothing with the answer to the command of a lens.
    executeCommand: async (command, given: unknown[], next) => {
      const [counted] = given as { uri: string; line: number }[];
      if (command !== RELATED || counted === undefined) return next(command, given) as unknown;
      return showCounted(counted.uri, counted.line);
    },
    // References are those of all servers together: ours are named only where no other server has any.
    provideReferences: async (document, position, context, token, next) => {
      if (isAskingOthers || !isFile(document)) return [];
      isAskingOthers = true;
      try {
        const others = await vscode.commands.executeCommand<vscode.Location[] | undefined>("vscode.executeReferenceProvider", document.uri, position);
        if (others !== undefined && others.length > 0) return [];
      } finally {
        isAskingOthers = false;
      }
      return next(document, position, context, token);
    },
  };
}
