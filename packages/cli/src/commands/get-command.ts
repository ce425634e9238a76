import { mkdir, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import {
  type Consent,
  type SavableStream,
  saveBytes,
  type SavedFile,
  scaleOf,
  type StreamFacts,
  streamResource,
} from "@sluice/client";
import { definedMembers, fileNameFromUri, sanitizeFileName } from "@sluice/core";
import {
  connect,
  ensureTrust,
  type ServerConnection,
  type ConnectOptions,
} from "../server-calls/connect.ts";
import { createConsent } from "../server-calls/consent.ts";
import { Advice, fault, goOnAdvice, isResumableFault } from "../outcome/failure.ts";
import { note, print } from "../terminal/print.ts";
import { printable, printableJson } from "../terminal/printable.ts";
import { createProgressBar } from "../terminal/progress-bar.ts";
import { formatBytes, formatDuration } from "../terminal/quantity.ts";
import { isStreamless, readResource } from "../server-calls/read-resource.ts";

/** Options of `sluice get`. */
export interface GetOptions extends ConnectOptions {
  /** File, or folder to put it into. */
  readonly output: string;
  /** Replace a file that is there. */
  readonly force?: boolean;
  /** Bytes. */
  readonly maxSize?: number;
  /** Do not ask before a large download. */
  readonly yes?: boolean;
  readonly connections: number;
  /** Further origins that bytes may come from. */
  readonly trust?: readonly string[];
  readonly json?: boolean;
}

/**
 * `sluice get`: saves resources, one after the other, and says on standard output where. What an
 * interrupted run left is taken up again when the same resource is saved to the same place. What a server does not stream comes
 * by `resources/read`, which is said on standard error.
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
    throw fault("invalid_argument", `${output} is no folder`, "name one for several resources");
  const connection = await connect(server, options);
  try {
    const consent = createConsent(options);
    const consentOf =
      isOne || !consent ? () => consent : await askAtOnce(connection, uris, consent, options);
    for (const uri of uris) await save(connection, uri, options, consentOf(uri));
  } finally {
    await connection.client.close();
  }
}

/** Asks once for several resources; gives what then holds each of them to the size it was asked for with. */
async function askAtOnce(
  connection: ServerConnection,
  uris: readonly string[],
  consent: Consent,
  options: GetOptions,
): Promise<(uri: string) => Consent> {
  const resources = new Map<string, StreamFacts>();
  for (const uri of uris) {
    const stream = await openStream(connection, uri, options, undefined);
    // what comes in one message is bounded
    if (!stream) continue;
    const { body, ...facts } = stream;
    await body.cancel();
    resources.set(uri, facts);
  }
  await consent(scaleOf([...resources.values()], options.output));
  return (uri) => (now) => {
    const { size = Infinity } = resources.get(uri) ?? {};
    if (now.unknownSizes === 0 ? now.bytes <= size : size === Infinity) return true;
    throw fault("too_large", `${uri} has grown since you were asked`, "run the same command again");
  };
}

/** Asks for a resource; `undefined` where the server does not stream it. */
async function openStream(
  connection: ServerConnection,
  uri: string,
  { maxSize = Number.MAX_SAFE_INTEGER, trust, signal }: GetOptions,
  consent: Consent | undefined,
): Promise<SavableStream | undefined> {
  const options = { signal, maxStreamSize: maxSize, trustedOrigins: trust, consent };
  try {
    return await streamResource(connection.client, uri, definedMembers(options));
  } catch (error) {
    if (isStreamless(connection, error)) return undefined;
    throw error;
  }
}

async function save(
  connection: ServerConnection,
  uri: string,
  options: GetOptions,
  consent: Consent | undefined,
): Promise<void> {
  const { output, force = false, connections } = options;
  const bar = createProgressBar(process.stderr);
  let receivedBytes = 0;
  try {
    const stream = await openStream(connection, uri, options, consent);
    if (!stream) return await saveContent(connection, uri, options);
    const startedAt = performance.now();
    const path = await pathFor(output, stream.name);
    const saved = await stream
      .saveTo(path, {
        overwrite: force,
        resume: true,
        connections,
        onProgress(count) {
          ({ receivedBytes } = count);
          bar.update(receivedBytes, count.totalBytes);
        },
      })
      .catch((error: unknown) => {
        if (error instanceof Advice) throw error;
        const isKept = stream.etag !== undefined && stream.size !== undefined;
        const advice = goOnAdvice(isKept ? receivedBytes : 0, "kept");
        throw new Advice(error, isResumableFault(error) ? advice : undefined);
      });
    bar.clear();
    const durationMs = performance.now() - startedAt;
    if (options.json) return await print(printableJson({ uri, mode: stream.mode, ...saved }));
    note(summary(saved, durationMs));
    if (stream.contentEncoding !== undefined)
      note(`stored and saved as ${printable(stream.contentEncoding)}: unpack it to read it`);
    await print(shortest(saved.path));
  } finally {
    bar.clear();
  }
}

/** The way of servers without streaming: the whole content in one message. */
async function saveContent(
  connection: ServerConnection,
  uri: string,
  options: GetOptions,
): Promise<void> {
  const { output, force = false, maxSize = Number.MAX_SAFE_INTEGER } = options;
  note(
    `${connection.server} does not stream ${printable(uri)}: read in one message (resources/read)`,
  );
  const startedAt = performance.now();
  const { bytes, verified } = await readResource(connection, uri, maxSize);
  const name = sanitizeFileName(fileNameFromUri(uri));
  const path = await pathFor(output, name);
  const saved = await saveBytes(bytes, path, { name, overwrite: force });
  const result = { ...saved, verified, resumedBytes: 0 };
  if (options.json) return print(printableJson({ uri, mode: "read", ...result }));
  note(summary(result, performance.now() - startedAt));
  await print(shortest(saved.path));
}

/** In a folder the library would number a name that is taken; a command that is run again should not. */
async function pathFor(output: string, name: string): Promise<string> {
  if (!(await isFolder(output))) return output;
  // as the library does for a folder that is not there; what is wrong with it the save says
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
  const check = verified === "digest" ? "as the server promised" : "the server promised none";
  return `${formatBytes(size)} in ${formatDuration(durationMs)} (${rate}/s)${resumed}\nsha256 ${sha256} (${check})`;
}
