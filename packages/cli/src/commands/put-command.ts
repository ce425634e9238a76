import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import {
  createFileSender,
  type FilesAnswer,
  type FileSender,
  type UploadedReference,
} from "@sluice/client/send";
import { definedMembers, FILE_KEYWORD } from "@sluice/core/internal";
import { callServer } from "../server-calls/call-server.ts";
import {
  connect,
  ensureTrust,
  type ClientConnection,
  type ServerCallOptions,
} from "../server-calls/connect.ts";
import {
  Advice,
  fault,
  goOnAdvice,
  isCertificateFault,
  isResumableFault,
} from "../terminal/failure.ts";
import { answerFileRequest, ensureFiles } from "../server-calls/file-prompts.ts";
import { note, print, printable, printableJson } from "../terminal/print.ts";
import { createProgressBar, type ProgressBar } from "../terminal/progress-bar.ts";
import { openPutRecord } from "../server-calls/put-record.ts";
import { Refusals } from "../terminal/refusals.ts";
import { formatBytes, formatDuration } from "../terminal/quantity.ts";

/** Options of `sluice put`. */
export interface PutOptions extends ServerCallOptions {
  /** Tool that gets the files. Default: the only one that takes any. */
  readonly tool?: string;
  /** Further origins that files may go to. */
  readonly trust?: readonly string[];
  /** Maximum bytes of one request of an upload. */
  readonly maxStep?: number;
  readonly json?: boolean;
}

/** What to do next, if different from after a download. */
const hints: Partial<Record<SluiceErrorCode, string>> = {
  not_found: "ask the server's operator whether it takes files",
  unsupported: "send a file of a type that the tool takes",
  too_large: "send a smaller one, or ask for a higher limit",
  no_space: "ask the server's operator to make room",
  corrupt: "run the same command again, and tell the server's operator if it persists",
  precondition_failed: "run the same command again",
  untrusted: "pass --trust ORIGIN if you trust that address with the file",
};

/** How long a tool may take, and a person at its questions. */
const toolMs = 3_600_000;

/**
 * `sluice put`: sends files and hands them to a tool of the server, one call each unless it takes several; or calls a
 * tool that asks for files itself, and answers it. A rejected file does not keep later ones from being sent. What an
 * interrupted run sent is not sent again when the same file goes to the same server. A run that sent no file is a
 * failure.
 */
export async function putCommand(
  server: string,
  files: readonly string[],
  options: PutOptions,
): Promise<void> {
  const { token, trust = [], tool, maxStep: maxStepBytes } = options;
  ensureTrust(trust);
  await ensureFiles(files);
  const bar = createProgressBar(process.stderr);
  const askedFiles: AskedFiles = { sentBytes: 0 };
  const sender = createFileSender({
    endpoint: endpointOf(server),
    maxFileBytes: Number.MAX_SAFE_INTEGER,
    trustedOrigins: trust,
    ...definedMembers({ token, maxStepBytes }),
    onProgress({ bytes, totalBytes }) {
      askedFiles.sentBytes = bytes;
      bar.update(bytes, totalBytes);
    },
    async onFilesRequested(request, context) {
      try {
        const signal = AbortSignal.any([options.signal, context.signal]);
        const answer = await answerFileRequest(request, { files, signal });
        askedFiles.wantedBytes = await bytesOf(answer);
        return answer;
      } catch (error) {
        // the server learns less about it than the user
        askedFiles.refusal = error;
        throw new SluiceError("interrupted", "uploads: the user sent nothing", { cause: error });
      }
    },
  });
  const connection = await connect(server, options, sender);
  try {
    const chosen = await chooseTool(connection, tool);
    if (chosen.argument === undefined) {
      const result = await answerTool(connection, chosen, askedFiles);
      bar.clear();
      await report(result, options);
      ensureSent(chosen, askedFiles);
      return;
    }
    if (files.length === 0)
      throw fault("invalid_argument", `${chosen.name} takes files`, "name at least one");
    const sendOne = (file: string) => upload(sender, connection, file, bar);
    if (chosen.isList) {
      const references: UploadedReference[] = [];
      for (const file of files) references.push(await sendOne(file));
      return await hand(references, connection, chosen, options);
    }
    await forEachFile(files, async (file) => {
      await hand([await sendOne(file)], connection, chosen, options);
    });
  } catch (error) {
    throw advised(error);
  } finally {
    bar.clear();
    await connection.client.close();
  }
}

/** A fault with what to do next, if different from after a download. */
function advised(error: unknown): unknown {
  const hint = SluiceError.is(error) && !isCertificateFault(error) ? hints[error.code] : undefined;
  return hint === undefined ? error : new Advice(error, hint);
}

/** Sends files one after the other. Faults of one of several are reported, and thrown when all were tried. */
async function forEachFile(
  files: readonly string[],
  send: (file: string) => Promise<void>,
): Promise<void> {
  const refusals = new Refusals();
  for (const file of files)
    try {
      await send(file);
    } catch (error) {
      if (!refusals.isOfFile(error) || files.length === 1) throw error;
      refusals.note(file, advised(error));
    }
  refusals.ensureNone(files.length);
}

/** The outcome of the files that a tool asked for. */
interface AskedFiles {
  sentBytes: number;
  /** Bytes of the files that the user chose; absent if there are none. */
  wantedBytes?: number | undefined;
  /** Why the user sent none. */
  refusal?: unknown;
}

/** Calls a tool that asks for files itself. */
async function answerTool(
  connection: ClientConnection,
  tool: FileTool,
  asked: AskedFiles,
): Promise<Result> {
  const result = await callTool(connection, tool, {}).catch((error: unknown) => {
    throw asked.refusal ?? error;
  });
  if (asked.refusal !== undefined) throw asked.refusal;
  return result;
}

function ensureSent({ name }: FileTool, { sentBytes, wantedBytes = Infinity }: AskedFiles): void {
  if (sentBytes >= wantedBytes) return;
  throw fault(
    "unsupported",
    `${name} ended, and no file was sent`,
    "send files to a tool that takes or asks for some, and say yes where it asks",
  );
}

/** Bytes of the files of an answer; `undefined` for one without files. */
async function bytesOf(answer: FilesAnswer<string>): Promise<number | undefined> {
  const paths = answer.action === "accept" ? Object.values(answer.files).flat() : [];
  if (paths.length === 0) return undefined;
  const infos = await Promise.all(paths.map((path) => stat(path)));
  return infos.reduce((sum, { size }) => sum + size, 0);
}

/** WebSockets carry messages only: files go to the HTTP side of the same server. */
function endpointOf(server: string): string {
  return server.replace(/^ws/i, "http");
}

async function upload(
  sender: FileSender<string>,
  connection: ClientConnection,
  file: string,
  bar: ProgressBar,
): Promise<UploadedReference> {
  const { client, server, signal } = connection;
  const record = await openPutRecord(server, file);
  const { begun } = record;
  let sentBytes = 0;
  let isKept = begun !== undefined;
  const startedAt = performance.now();
  bar.start();
  try {
    const reference = await callServer(connection, () =>
      sender.upload(client, resolve(file), {
        signal,
        ...(begun && { begun }),
        onProgress(count) {
          sentBytes = count.bytes;
          bar.update(sentBytes, count.totalBytes);
        },
        async onBegun(now) {
          isKept = true;
          await record.remember(now);
        },
      }),
    );
    bar.clear();
    await record.forget();
    const durationMs = performance.now() - startedAt;
    note(
      `${formatBytes(reference.size)} in ${formatDuration(durationMs)}\nsha256 ${reference.sha256}`,
    );
    return reference;
  } catch (error) {
    const isFull = SluiceError.is(error) && error.code === "no_space";
    if (isFull ? sentBytes === 0 : !isResumableFault(error)) {
      await record.forget();
      throw error;
    }
    const again = goOnAdvice(isKept ? sentBytes : 0, "sent");
    throw new Advice(error, isFull ? `${hints.no_space}; ${again}` : again);
  }
}

/** Gives files to a tool and prints its result. */
async function hand(
  files: readonly UploadedReference[],
  connection: ClientConnection,
  tool: FileTool,
  options: PutOptions,
): Promise<void> {
  const uris = files.map(({ uri }) => uri);
  const argument = tool.isList ? uris : uris[0];
  const result = await callTool(connection, tool, { [tool.argument!]: argument });
  await report(result, options, files);
}

type Result = Awaited<ReturnType<Client["callTool"]>>;

async function callTool(
  connection: ClientConnection,
  { name }: FileTool,
  args: Record<string, unknown>,
): Promise<Result> {
  const { client, signal } = connection;
  const result = await callServer(connection, () =>
    client.callTool({ name, arguments: args }, { signal, timeout: toolMs }),
  );
  if (!result.isError) return result;
  throw fault("internal", `${name} failed: ${textOf(result)}`, "see what the tool needs");
}

async function report(
  result: Result,
  { json }: PutOptions,
  files?: readonly UploadedReference[],
): Promise<void> {
  if (json) {
    const { content, structuredContent } = result;
    return print(printableJson({ files, content, structuredContent }));
  }
  for (const line of textOf(result).split("\n")) await print(printable(line));
}

function textOf({ content }: Result): string {
  return content.map((part) => (part.type === "text" ? part.text : `(${part.type})`)).join("\n");
}

interface FileTool {
  readonly name: string;
  /** Argument that takes a file (SEP-2631 §5); absent for a tool that asks for files when it is called. */
  readonly argument?: string;
  /** The argument takes several. */
  readonly isList: boolean;
}

/** Finds the tool of that name or, without one, the only tool that takes files. */
async function chooseTool(
  connection: ClientConnection,
  tool: string | undefined,
): Promise<FileTool> {
  const { server } = connection;
  const tools = await callServer(connection, () => listTools(connection));
  if (tool !== undefined) {
    const namedTool = tools.find(({ name }) => name === tool);
    if (namedTool) return describe(namedTool);
    throw fault("not_found", `${server} has no tool ${tool}`, "name one that it has with --tool");
  }
  const takers = tools.map(describe).filter(({ argument }) => argument !== undefined);
  const [only, another] = takers;
  if (!only)
    throw fault(
      "unsupported",
      `${server} has no tool that takes a file`,
      "name one that asks for files with --tool",
    );
  if (!another) return only;
  const names = takers.map(({ name }) => printable(name)).join(", ");
  throw fault("invalid_argument", `several tools take files: ${names}`, "name one with --tool");
}

/** Without the capability the SDK answers for the server, and writes a line to standard output. */
async function listTools({ client, signal }: ClientConnection): Promise<readonly ListedTool[]> {
  if (!client.getServerCapabilities()?.tools) return [];
  const { tools } = await client.listTools({}, { signal });
  return tools;
}

interface ListedTool {
  readonly name: string;
  readonly inputSchema: { readonly properties?: unknown };
}

function describe({ name, inputSchema }: ListedTool): FileTool {
  const properties = Object.entries((inputSchema.properties ?? {}) as Record<string, FileSchema>);
  for (const [argument, schema] of properties) {
    if (schema[FILE_KEYWORD] !== undefined) return { name, argument, isList: false };
    if (schema.items?.[FILE_KEYWORD] !== undefined) return { name, argument, isList: true };
  }
  return { name, isList: false };
}

interface FileSchema {
  readonly [FILE_KEYWORD]?: unknown;
  readonly items?: { readonly [FILE_KEYWORD]?: unknown };
}
