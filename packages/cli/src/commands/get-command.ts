import { mkdir, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { once } from "node:events";
import { homedir } from "node:os";
import { createInterface } from "node:readline";
import { type Consent, type SavedFile, type StreamFacts, type TransferScale } from "@sluice/client";
import { SluiceError } from "@sluice/core";
import {
  formatScale,
  type SavableStream,
  saveBytes,
  scaleOf,
  streamToSave,
} from "@sluice/client/internal";
import { definedMembers, fileNameFromUri, sanitizeFileName } from "@sluice/core/internal";
import {
  connect,
  ensureTrust,
  type ClientConnection,
  type ServerCallOptions,
} from "../server-calls/connect.ts";
import { Advice, fault, goOnAdvice, isResumableFault } from "../terminal/failure.ts";
import { note, print, printable, printableJson } from "../terminal/print.ts";
import { createProgressBar, type ReportProgress, shareProgress } from "../terminal/progress-bar.ts";
import { runInOrder, SaveOrder, type PlaceInOrder } from "../save/save-order.ts";
import { formatBytes, formatDuration } from "../terminal/quantity.ts";
import { declaresStreaming, readResource } from "../server-calls/read-resource.ts";

/** Options of `sluice get`. */
export interface GetOptions extends ServerCallOptions {
  /** File, or folder to put it into. */
  readonly output: string;
  /** Replace a file that is there. */
  readonly force?: boolean;
  /** Bytes. */
  readonly maxSize?: number;
  /** Do not ask before a large download. */
  readonly yes?: boolean;
  readonly connections: number;
  /** Resources to get in parallel. */
  readonly jobs: number;
  /** Further origins that bytes may come from. */
  readonly trust?: readonly string[];
  readonly json?: boolean;
}

/**
 * `sluice get`: saves resources, several at a time, and says on standard output where, in the order of the URIs. The
 * first that fails ends those after it. An interrupted run is resumed when the same resource is saved to the same
 * place. What a server does not stream comes by `resources/read`, with a note on standard error.
 */
export async function getCommand(
  server: string,
  uris: readonly string[],
  options: GetOptions,
): Promise<void> {
  const isOne = uris.length === 1;
  const { output } = options;
  ensureTrust(options.trust);
  if (!isOne && !(await isFolder(output)))
    throw fault("invalid_argument", `${output} is not a folder`, "name one for several resources");
  const connection = await connect(server, options);
  const bar = createProgressBar(process.stderr);
  try {
    const question = createConsent(options);
    // nothing is drawn over a question
    const consent: typeof question = question && ((scale) => (bar.clear(), question(scale)));
    bar.start();
    const consentOf =
      isOne || !consent ? () => consent : await askAtOnce(connection, uris, consent, options);
    const order = new SaveOrder();
    const progressOf = shareProgress(bar, uris.length);
    await runInOrder({
      count: uris.length,
      jobs: options.jobs,
      signal: options.signal,
      run: (index, signal) => {
        const uri = uris[index] as string;
        const place = (pathOf: () => Promise<string>) => {
          bar.start();
          return order.enter(index, pathOf);
        };
        const request = { uri, consent: consentOf(uri), report: progressOf(), place };
        return save({ ...connection, signal }, request, { ...options, signal }).finally(() =>
          order.pass(index),
        );
      },
      async tell({ notes, line }) {
        bar.clear();
        notes.forEach(note);
        await print(line);
      },
    });
  } finally {
    bar.clear();
    await connection.client.close();
  }
}

interface Wanted {
  readonly uri: string;
  readonly consent: Consent | undefined;
  readonly report: ReportProgress;
  /** Takes the path for a save; `leave` is called when it is over. */
  readonly place: (pathOf: () => Promise<string>) => Promise<PlaceInOrder>;
}

interface SaveReport {
  /** For people. */
  readonly notes: readonly string[];
  /** For standard output. */
  readonly line: string;
}

/** Asks once for several resources; gives what then holds each of them to the size it was asked for with. */
async function askAtOnce(
  connection: ClientConnection,
  uris: readonly string[],
  consent: Consent,
  options: GetOptions,
): Promise<(uri: string) => Consent> {
  const resources = new Map<string, StreamFacts>();
  await runInOrder({
    count: uris.length,
    jobs: options.jobs,
    signal: options.signal,
    run: async (index, signal) => {
      const openOptions = { ...options, signal };
      const stream = await openStream(connection, uris[index] as string, openOptions, undefined);
      if (!stream) return undefined;
      stream.cancel();
      return stream;
    },
    // what comes in one message is bounded
    async tell(facts, index) {
      if (facts) resources.set(uris[index] as string, facts);
    },
  });
  await consent(scaleOf([...resources.values()], options.output));
  return (uri) => (now) => {
    const { size = Infinity } = resources.get(uri) ?? {};
    if (now.unknownSizes === 0 ? now.bytes <= size : size === Infinity) return true;
    throw fault("too_large", `${uri} has grown since you were asked`, "run the same command again");
  };
}

/** Asks for a resource, or for what an earlier run has not got of it; `undefined` if the server does not stream it. */
async function openStream(
  connection: ClientConnection,
  uri: string,
  { maxSize, trust, signal, output }: GetOptions,
  consent: Consent | undefined,
): Promise<SavableStream | undefined> {
  if (!declaresStreaming(connection)) return undefined;
  const options = { signal, maxStreamBytes: maxSize, trustedOrigins: trust, consent };
  try {
    return await streamToSave(connection.client, uri, output, definedMembers(options));
  } catch (error) {
    if (SluiceError.is(error) && error.code === "unsupported") return undefined;
    throw error;
  }
}

async function save(
  connection: ClientConnection,
  wanted: Wanted,
  options: GetOptions,
): Promise<SaveReport> {
  const { uri } = wanted;
  const { output, force = false, connections } = options;
  let receivedBytes = 0;
  const stream = await openStream(connection, uri, options, wanted.consent);
  if (!stream) return saveContent(connection, wanted, options);
  const { path, leave } = await wanted
    .place(() => pathFor(output, stream.name))
    .catch((error: unknown) => {
      stream.cancel();
      throw error;
    });
  try {
    const startedAt = performance.now();
    const saved = await stream.saveTo(path, {
      overwrite: force,
      resume: true,
      connections,
      onProgress(count) {
        receivedBytes = count.bytes;
        wanted.report(receivedBytes, count.totalBytes);
      },
    });
    const durationMs = performance.now() - startedAt;
    if (options.json)
      return { notes: [], line: printableJson({ uri, mode: stream.mode, ...saved }) };
    const notes = [summary(saved, durationMs)];
    if (stream.contentEncoding !== undefined)
      notes.push(`stored and saved as ${printable(stream.contentEncoding)}: unpack it to read it`);
    return { notes, line: shortest(saved.path) };
  } catch (error) {
    if (error instanceof Advice) throw error;
    const isKept = stream.etag !== undefined && stream.size !== undefined;
    const advice = goOnAdvice(isKept ? receivedBytes : 0, "kept");
    throw new Advice(error, isResumableFault(error) ? advice : undefined);
  } finally {
    leave();
  }
}

/** The way of servers without streaming: the whole content in one message. */
async function saveContent(
  connection: ClientConnection,
  { uri, place }: Wanted,
  options: GetOptions,
): Promise<SaveReport> {
  const { output, force = false, maxSize = Number.MAX_SAFE_INTEGER } = options;
  note(
    `${connection.server} does not stream ${printable(uri)}: read in one message (resources/read)`,
  );
  const startedAt = performance.now();
  const { bytes, verified } = await readResource(connection, uri, maxSize);
  const name = sanitizeFileName(fileNameFromUri(uri));
  const { path, leave } = await place(() => pathFor(output, name));
  try {
    const saved = await saveBytes(bytes, path, { name, overwrite: force });
    const result = { ...saved, verified, resumedBytes: 0 };
    if (options.json) return { notes: [], line: printableJson({ uri, mode: "read", ...result }) };
    const notes = [summary(result, performance.now() - startedAt)];
    return { notes, line: shortest(saved.path) };
  } finally {
    leave();
  }
}

/** In a folder the library would number a taken name; a repeated command should not. */
async function pathFor(output: string, name: string): Promise<string> {
  if (!(await isFolder(output))) return output;
  // as the library does for a missing folder; the save reports its faults
  if (output.endsWith("/")) await mkdir(output, { recursive: true }).catch(() => {});
  return join(output, name);
}

/** Relative below the current folder, absolute elsewhere. */
function shortest(path: string): string {
  const below = relative("", path);
  return below.startsWith("..") ? path : below;
}

async function isFolder(path: string): Promise<boolean> {
  return path.endsWith("/") || ((await stat(path).catch(() => undefined))?.isDirectory() ?? false);
}

type Summed = Omit<SavedFile, "path" | "verified"> & {
  readonly verified: SavedFile["verified"] | "none";
};

function summary({ size, sha256, verified, resumedBytes }: Summed, durationMs: number): string {
  const rate = formatBytes(((size - resumedBytes) / durationMs) * 1000);
  const resumed = resumedBytes > 0 ? ` after ${formatBytes(resumedBytes)} of an earlier run` : "";
  const check =
    verified === "digest" ? "as the server promised" : "computed here; the server sent no digest";
  return `${formatBytes(size)} in ${formatDuration(durationMs)} (${rate}/s)${resumed}\nsha256 ${sha256} (${check})`;
}

/** What the user already said on the command line. */
interface ConsentOptions {
  /** Yes to everything. */
  readonly yes?: boolean | undefined;
  /** Bytes that are accepted, and enforced. */
  readonly maxSize?: number | undefined;
  readonly signal: AbortSignal;
}

/** Bytes up to which the user is not asked. */
const askAbove = 2 ** 30;

/** Asks on the terminal before a large download, or one of unknown size; `undefined` if the answer is known. */
export function createConsent({ yes, maxSize, signal }: ConsentOptions): Consent | undefined {
  if (yes || maxSize !== undefined) return undefined;
  return async (scale) => {
    if (scale.unknownSizes === 0 && scale.bytes <= askAbove) return true;
    const what = describeScale(scale);
    if (!process.stdin.isTTY || !process.stderr.isTTY)
      throw fault(
        "too_large",
        `no terminal to ask whether to fetch ${what}`,
        "pass --yes, or a sufficient --max-size",
      );
    process.stderr.write(`Download ${what}? [y/N] `);
    if (/^\s*y(es)?\s*$/i.test((await readAnswer(signal)) ?? "")) return true;
    throw fault("too_large", "declined", "nothing was downloaded");
  };
}

function describeScale(scale: TransferScale): string {
  const { to } = scale;
  const home = homedir() + sep;
  const short = to?.startsWith(home) ? `~${sep}${to.slice(home.length)}` : to;
  return printable(
    formatScale({ ...scale, ...(short !== undefined && { to: short }) }, formatBytes),
  );
}

/** One line that is typed; `undefined` when there will be none. */
async function readAnswer(signal: AbortSignal): Promise<string | undefined> {
  // no line editing: Ctrl-C stays the terminal's own
  const lines = createInterface({ input: process.stdin, terminal: false });
  const stop = new AbortController();
  const until = { signal: AbortSignal.any([signal, stop.signal]) };
  try {
    const answered = once(lines, "line", until) as Promise<[string]>;
    const [line] = await Promise.race([answered, once(lines, "close", until)]);
    return line;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    stop.abort();
    lines.close();
  }
}
