import { utimes } from "node:fs/promises";
import { createHash } from "node:crypto";
import { relative } from "node:path";
import type { Consent, SavedFile } from "@sluice/client";
import { type SavableStream, saveBytes, streamToSave } from "@sluice/client/internal";
import { SluiceError } from "@sluice/core";
import { definedMembers, fileNameFromUri, sanitizeFileName } from "@sluice/core/internal";
import type { PlaceInOrder } from "../save/save-order.ts";
import type { ClientConnection } from "../server-calls/connect.ts";
import { declaresStreaming, readResource } from "../server-calls/read-resource.ts";
import { Advice, goOnAdvice, isResumableFault } from "../terminal/failure.ts";
import { printable, printableJson } from "../terminal/print.ts";
import type { ReportProgress } from "../terminal/progress-bar.ts";
import { formatBytes, formatDuration } from "../terminal/quantity.ts";
import type { ChosenResource } from "./choose-resources.ts";
import { presentSize } from "./present-file.ts";
import type { Pace } from "./rate-limit.ts";

/** How a command saves resources. */
export interface DownloadSettings {
  /** File, or folder to put it into. */
  readonly output: string;
  /** Replace another file that is there. */
  readonly force?: boolean;
  /** Bytes. */
  readonly maxSize?: number;
  /** Connections for each resource. */
  readonly connections: number;
  /** Further origins that bytes may come from. */
  readonly trust?: readonly string[];
  readonly json?: boolean;
  /** Slows transfers down. */
  readonly pace?: Pace | undefined;
  readonly signal: AbortSignal;
}

/** A resource to save. */
export interface WantedResource extends ChosenResource {
  /** SHA-256 in hex that it must have, whatever the server promises. */
  readonly sha256?: string | undefined;
  readonly consent: Consent | undefined;
  readonly report: ReportProgress;
  /** Takes the path for a save; `name` is the server's, for one without a path. `leave` is called when it is over. */
  readonly place: (name: string) => Promise<PlaceInOrder>;
  /** Called if the server does not stream it. */
  readonly noteRead: () => void;
}

/** What became of a resource. */
export interface SaveReport {
  /** `present`: the same file was there. */
  readonly outcome: "saved" | "present";
  /** That came from the server. */
  readonly bytes: number;
  /** For people. */
  readonly notes: readonly string[];
  /** For standard output. */
  readonly line: string;
}

/** Up to this size a resource of a list comes on the answer of its call: a second request costs more than its bytes. */
const maxDirectBytes = 512 * 1_024;
const directFirst = ["direct", "downloadUrl", "redirect"] as const;

/** Asks for a resource, or for what an earlier run has not got of it; `undefined` if the server does not stream it. */
export async function openStream(
  connection: ClientConnection,
  { uri, size = Infinity }: ChosenResource,
  path: string,
  { maxSize, trust, signal }: Pick<DownloadSettings, "maxSize" | "trust" | "signal">,
  consent: Consent | undefined,
): Promise<SavableStream | undefined> {
  if (!declaresStreaming(connection)) return undefined;
  const options = {
    signal,
    maxStreamBytes: maxSize,
    trustedOrigins: trust,
    consent,
    prefer: size <= maxDirectBytes ? directFirst : undefined,
  };
  try {
    return await streamToSave(connection.client, uri, path, definedMembers(options));
  } catch (error) {
    if (SluiceError.is(error) && error.code === "unsupported") return undefined;
    throw error;
  }
}

/** Saves a resource, unless the same file is there. An interrupted save is resumed. */
export async function saveResource(
  connection: ClientConnection,
  wanted: WantedResource,
  settings: DownloadSettings,
): Promise<SaveReport> {
  const { uri, consent } = wanted;
  let place = wanted.path === undefined ? undefined : await wanted.place("");
  let stream: SavableStream | undefined;
  try {
    const path = place?.path ?? settings.output;
    stream = await openStream(connection, wanted, path, settings, consent);
    if (stream) {
      place ??= await wanted.place(stream.name);
      const promised = { ...stream, sha256: wanted.sha256 ?? stream.sha256 };
      const presentBytes = await presentSize(place.path, promised, settings);
      if (presentBytes !== undefined) return presentReport(uri, place.path, presentBytes, settings);
      return await saveStream(stream, place.path, wanted, settings);
    }
    const startedAt = performance.now();
    const content = await readContent(connection, wanted, settings);
    place ??= await wanted.place(content.name);
    return await saveContent(content, place.path, wanted, settings, startedAt);
  } finally {
    // of one that was saved nothing is left to end
    stream?.cancel();
    place?.leave();
  }
}

async function saveStream(
  stream: SavableStream,
  path: string,
  { uri, sha256, report }: WantedResource,
  settings: DownloadSettings,
): Promise<SaveReport> {
  const { force = false, connections, pace } = settings;
  let receivedBytes = 0;
  try {
    const startedAt = performance.now();
    const saved = await stream.saveTo(path, {
      overwrite: force,
      resume: true,
      connections,
      ...definedMembers({ sha256, pace }),
      onProgress(count) {
        receivedBytes = count.bytes;
        report(receivedBytes, count.totalBytes);
      },
    });
    const durationMs = performance.now() - startedAt;
    const { mode, contentEncoding } = stream;
    return savedReport({ uri, mode, ...saved }, durationMs, settings, contentEncoding);
  } catch (error) {
    if (error instanceof Advice) throw error;
    const isKept = stream.etag !== undefined && stream.size !== undefined;
    const advice = goOnAdvice(isKept ? receivedBytes : 0, "kept");
    throw new Advice(error, isResumableFault(error) ? advice : undefined);
  }
}

interface NamedContent extends Awaited<ReturnType<typeof readResource>> {
  readonly name: string;
}

/** The way of servers without streaming: the whole content in one message. */
async function readContent(
  connection: ClientConnection,
  { uri, path, size, noteRead }: WantedResource,
  { maxSize = Number.MAX_SAFE_INTEGER }: DownloadSettings,
): Promise<NamedContent> {
  const listedFacts = path === undefined ? undefined : { size };
  // one that streams may refuse the URI of a folder
  const isCertain = !declaresStreaming(connection);
  if (isCertain) noteRead();
  const content = await readResource(connection, uri, maxSize, listedFacts);
  if (!isCertain) noteRead();
  return { ...content, name: sanitizeFileName(fileNameFromUri(uri)) };
}

async function saveContent(
  { bytes, verified, name }: NamedContent,
  path: string,
  { uri, lastModified = "", sha256, report }: WantedResource,
  settings: DownloadSettings,
  startedAt: number,
): Promise<SaveReport> {
  const { force = false } = settings;
  const promised = { size: bytes.length, sha256: sha256Of(bytes) };
  if (sha256 !== undefined && sha256 !== promised.sha256)
    throw new SluiceError("corrupt", `${printable(uri)} has another SHA-256 than expected`);
  if ((await presentSize(path, promised, settings)) !== undefined)
    return presentReport(uri, path, bytes.length, settings);
  const saved = await saveBytes(bytes, path, { name, overwrite: force });
  const modifiedMs = Date.parse(lastModified);
  if (modifiedMs > 0 && modifiedMs <= Date.now())
    await utimes(saved.path, new Date(), new Date(modifiedMs)).catch(() => {});
  report(saved.size, saved.size);
  const facts = { uri, mode: "read", ...saved, verified, resumedBytes: 0 } as const;
  return savedReport(facts, performance.now() - startedAt, settings);
}

function sha256Of(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

type SavedFacts = Omit<SavedFile, "verified"> & {
  readonly uri: string;
  readonly mode: string;
  readonly verified: SavedFile["verified"] | "none";
};

/** The report for a file that was saved. */
export function savedReport(
  facts: SavedFacts,
  durationMs: number,
  { json }: DownloadSettings,
  contentEncoding?: string,
): SaveReport {
  const bytes = facts.size - facts.resumedBytes;
  if (json) return { outcome: "saved", bytes, notes: [], line: printableJson(facts) };
  const notes = [summary(facts, durationMs)];
  if (contentEncoding !== undefined)
    notes.push(`stored and saved as ${printable(contentEncoding)}: unpack it to read it`);
  return { outcome: "saved", bytes, notes, line: shortest(facts.path) };
}

/** The report for a file that is there. */
export function presentReport(
  uri: string,
  path: string,
  size: number,
  { json }: Pick<DownloadSettings, "json">,
): SaveReport {
  const line = json ? printableJson({ uri, path, size, skipped: true }) : shortest(path);
  const notes = json ? [] : [`${printable(shortest(path))} is there already, and the same`];
  return { outcome: "present", bytes: 0, notes, line };
}

/** Relative below the current folder, absolute elsewhere. */
function shortest(path: string): string {
  const below = relative("", path);
  return below.startsWith("..") ? path : below;
}

function summary({ size, sha256, verified, resumedBytes }: SavedFacts, durationMs: number): string {
  const rate = formatBytes(((size - resumedBytes) / durationMs) * 1000);
  const resumed = resumedBytes > 0 ? ` after ${formatBytes(resumedBytes)} of an earlier run` : "";
  const check =
    verified === "digest" ? "as the server promised" : "computed here; the server sent no digest";
  return `${formatBytes(size)} in ${formatDuration(durationMs)} (${rate}/s)${resumed}\nsha256 ${sha256} (${check})`;
}
