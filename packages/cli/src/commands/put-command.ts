import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import {
  createFileSender,
  type FilesAnswer,
  type FileSender,
  type PickedFile,
  type UploadedReference,
} from "@sluice/client/send";
import { definedMembers } from "@sluice/core/internal";
import { runInOrder } from "../save/save-order.ts";
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
import { chooseTool, describeTool, type FileTool } from "../server-calls/file-tool.ts";
import { answerFileRequest, ensureFiles } from "../server-calls/file-prompts.ts";
import { note, print, printable, printableJson } from "../terminal/print.ts";
import {
  createProgressBar,
  noBar,
  type ProgressBar,
  type SharedProgress,
  shareProgress,
} from "../terminal/progress-bar.ts";
import { openPutRecord } from "../server-calls/put-record.ts";
import { RefusedFiles } from "../terminal/refusals.ts";
import { Tally } from "../terminal/tally.ts";
import { chooseFiles, type FileChoiceOptions } from "../upload/choose-files.ts";
import { openPutJournal, type PutJournal, versionOf } from "../upload/put-journal.ts";
import { storeStdin } from "../upload/stdin-file.ts";
import { formatBytes, formatDuration } from "../terminal/quantity.ts";

/** Options of `sluice put`. */
export interface PutOptions extends ServerCallOptions, FileChoiceOptions {
  /** Name for the one file. */
  readonly name?: string;
  /** Media type of the files, instead of what their names suggest. */
  readonly type?: string;
  /** Files to send in parallel. Default: 5 of folders and globs, else 1. */
  readonly jobs?: number;
  /** Print nothing but what the tool says. */
  readonly quiet?: boolean;
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
 * interrupted run sent is not sent again by the same command. A run that sent no file is a failure.
 */
export async function putCommand(
  server: string,
  names: readonly string[],
  options: PutOptions,
): Promise<void> {
  ensureTrust(options.trust);
  if (!names.includes("-")) {
    const { paths, isTree } = await chooseFiles(names, options, options.signal);
    await ensureFiles(paths);
    return send(server, names, paths, isTree, options);
  }
  const { name, signal } = options;
  if (names.length > 1 || name === undefined)
    throw fault("invalid_argument", "- is standard input, one file", "name it with --name");
  const stored = await storeStdin(name, signal);
  try {
    await send(server, names, [stored.path], false, options);
  } finally {
    await stored.remove();
  }
}

async function send(
  server: string,
  names: readonly string[],
  files: readonly string[],
  isTree: boolean,
  options: PutOptions,
): Promise<void> {
  const { token, trust = [], tool, maxStep: maxStepBytes, quiet } = options;
  if (options.name !== undefined && files.length > 1)
    throw fault("invalid_argument", "--name is for one file", "send it alone");
  const bar = quiet ? noBar : createProgressBar(process.stderr);
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
  let chosen: FileTool | undefined;
  try {
    chosen = await chooseTool(connection, tool);
    if (chosen.argument === undefined) {
      const result = await answerTool(connection, chosen, askedFiles);
      bar.clear();
      await report(result, options);
      ensureSent(chosen, askedFiles);
      return;
    }
    if (files.length === 0)
      throw fault("invalid_argument", `${chosen.name} takes files`, "name at least one");
    const run: PutRun = { connection, sender, bar, tool: chosen, files, isTree, options };
    if (chosen.isList) await sendAsList(run);
    else await sendEach(run, await openPutJournal(server, chosen.name, names, options));
  } catch (error) {
    throw advised(error, chosen);
  } finally {
    bar.clear();
    await connection.client.close();
  }
}

/** A fault with what to do next, if different from after a download. */
function advised(error: unknown, tool: FileTool | undefined): unknown {
  if (!SluiceError.is(error) || isCertificateFault(error)) return error;
  const isOfField = error.code === "unsupported" || error.code === "too_large";
  const hint =
    isOfField && tool?.argument !== undefined
      ? `${describeTool(tool)}: ${hints[error.code]}`
      : hints[error.code];
  return hint === undefined ? error : new Advice(error, hint);
}

interface PutRun {
  readonly connection: ClientConnection;
  readonly sender: FileSender<PickedFile>;
  readonly bar: ProgressBar;
  readonly tool: FileTool;
  readonly files: readonly string[];
  readonly isTree: boolean;
  readonly options: PutOptions;
}

/** Hands all files to the tool in one call. */
async function sendAsList(run: PutRun): Promise<void> {
  const { files, bar, connection, tool, options } = run;
  const begin = shareProgress(bar, files.length);
  const references: UploadedReference[] = [];
  for (const file of files) {
    const { reference, text } = await upload(run, file, options.signal, begin());
    bar.clear();
    if (!run.isTree && !options.quiet) note(text);
    references.push(reference);
  }
  await report(await hand(references, connection, tool), options, references);
}

const treeJobs = 5;

/** Hands files to the tool one by one. Faults of one of several are reported, and thrown when all were tried. */
async function sendEach(run: PutRun, journal: PutJournal): Promise<void> {
  const { files, bar, connection, tool, isTree, options } = run;
  const { signal, json, quiet, jobs = isTree ? treeJobs : 1 } = options;
  const isBatch = files.length > 1;
  const begin = shareProgress(bar, files.length);
  const refusals = new RefusedFiles();
  const tally = new Tally("sent", "sent by an earlier run");
  try {
    await runInOrder({
      count: files.length,
      jobs,
      signal,
      async run(index, jobSignal): Promise<SentReference | Refused | undefined> {
        const file = files[index]!;
        const progress = begin();
        try {
          const version = isBatch ? await versionOf(file) : undefined;
          if (version !== undefined && journal.isDone(version)) return undefined;
          const { reference, text } = await upload(run, file, jobSignal, progress);
          const result = await hand([reference], { ...connection, signal: jobSignal }, tool);
          if (version !== undefined) await journal.note(version);
          return { reference, text, result };
        } catch (error) {
          if (isBatch && refusals.isOfFile(error)) return { refusal: error };
          throw error;
        } finally {
          progress.end();
        }
      },
      async tell(outcome, index) {
        bar.clear();
        if (outcome && "refusal" in outcome)
          return refusals.note(files[index]!, advised(outcome.refusal, tool));
        tally.add(outcome !== undefined, outcome?.reference.size ?? 0);
        if (!outcome) return;
        if (!isTree && !quiet) note(outcome.text);
        await report(outcome.result, options, [outcome.reference]);
      },
    });
  } finally {
    bar.clear();
    if (isBatch && !json && !quiet) note(tally.summary(refusals.count));
  }
  refusals.ensureNone(files.length);
  await journal.forget();
}

interface SentReference {
  readonly reference: UploadedReference;
  /** For people. */
  readonly text: string;
  readonly result: Result;
}

interface Refused {
  readonly refusal: unknown;
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
  { connection, sender, bar, options }: PutRun,
  file: string,
  signal: AbortSignal,
  { report: reportProgress }: SharedProgress,
): Promise<Pick<SentReference, "reference" | "text">> {
  const { client, server } = connection;
  const { name, type: mimeType } = options;
  const record = await openPutRecord(server, file);
  const { begun } = record;
  let sentBytes = 0;
  let isKept = begun !== undefined;
  const startedAt = performance.now();
  bar.start();
  try {
    const picked = { path: resolve(file), ...definedMembers({ name, mimeType }) };
    const reference = await callServer({ server, signal }, () =>
      sender.upload(client, picked, {
        signal,
        ...(begun && { begun }),
        onProgress(count) {
          sentBytes = count.bytes;
          reportProgress(sentBytes, count.totalBytes);
        },
        async onBegun(now) {
          isKept = true;
          await record.remember(now);
        },
      }),
    );
    await record.forget();
    const durationMs = performance.now() - startedAt;
    const text = `${formatBytes(reference.size)} in ${formatDuration(durationMs)}\nsha256 ${reference.sha256}`;
    return { reference, text };
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

/** Gives files to a tool. */
function hand(
  files: readonly UploadedReference[],
  connection: ClientConnection,
  tool: FileTool,
): Promise<Result> {
  const uris = files.map(({ uri }) => uri);
  return callTool(connection, tool, { [tool.argument!]: tool.isList ? uris : uris[0] });
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
