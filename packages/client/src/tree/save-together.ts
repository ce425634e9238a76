import { createHash, type Hash } from "node:crypto";
import { SluiceError } from "@sluice/core";
import {
  retryDelayMs,
  sleep,
  systemClock,
  type TreeBounds,
  type TreeEvent,
  type TreeHead,
  TreeReader,
  type TreeTrailer,
  watchThroughput,
} from "@sluice/core/internal";
import type { RequestingClient } from "../calls/stream-calls.ts";
import { lateBytes } from "../download/download-faults.ts";
import type { SavedFile } from "../download/save-options.ts";
import { totalMsOf, type StreamSettings } from "../download/stream-options.ts";
import { lateError, throughputRules } from "../net/timeouts.ts";
import { diskOrigin } from "../save/disk-error.ts";
import { maxFileBytesOf, requestTree, type TreeAnswer } from "./request-tree.ts";
import { SmallFileDisk } from "./small-files.ts";

/** A file to save among many. */
export interface FileAmongMany {
  readonly uri: string;
  /** Bytes, if known: another size goes by a call of its own. */
  readonly size?: number | undefined;
  /** SHA-256 in lower-case hex that it must have, if known. */
  readonly sha256?: string | undefined;
  /** Makes its folder, and gives its absolute path. */
  readonly place: () => Promise<string>;
}

/** What became of a file: saved, refused by the disk, or `alone`: it has to be asked for by a call of its own. */
export type EndAmongMany =
  | { readonly saved: SavedFile; readonly alone?: never; readonly error?: never }
  | { readonly error: unknown; readonly saved?: never; readonly alone?: never }
  | { readonly alone: true; readonly saved?: never; readonly error?: never };

/** How files are saved together. */
export interface TogetherOptions {
  readonly settings: StreamSettings;
  readonly bounds: TreeBounds;
  readonly overwrite: boolean;
  /** Called with the origin of the server before the first byte of each response is written. */
  readonly admit?: (origin: string) => Promise<void>;
  /** Waits for room in a rate. */
  readonly pace?: ((bytes: number) => Promise<void> | undefined) | undefined;
  /** Bytes of files that arrived. */
  readonly onBytes?: (bytes: number) => void;
  /** Called once for each file that has come to an end, with its index. */
  readonly onEnd: (index: number, end: EndAmongMany) => void;
}

/** Maximum text of the URIs of one call, in UTF-16 units. */
const maxUrisLength = 512 * 1024;

/** Counted for a file of unknown size. */
const guessedBytes = 256 * 1024;

/**
 * Saves small files, many with each response, verified one by one. Asks again for those that a broken response did not bring.
 * Rejects when the server or the disk does no more, as `saveResource` does; files that have not ended by then are not saved.
 */
export async function saveTogether(
  client: RequestingClient,
  files: readonly FileAmongMany[],
  options: TogetherOptions,
): Promise<void> {
  const maxFileBytes = maxFileBytesOf(options.settings);
  const fitting: number[] = [];
  for (const [index, { size = 0 }] of files.entries())
    if (size > maxFileBytes) options.onEnd(index, { alone: true });
    else fitting.push(index);
  const disk = new SmallFileDisk(options);
  for (const batch of batchesOf(files, fitting, options.bounds))
    await saveBatch(client, { files, disk, ...options }, batch);
}

/** Indexes in groups for one call each. */
function* batchesOf(
  files: readonly FileAmongMany[],
  indexes: readonly number[],
  { maxFiles, maxBytes }: TreeBounds,
): Generator<number[]> {
  let batch: number[] = [];
  let [bytes, length] = [0, 0];
  for (const index of indexes) {
    const { uri, size = guessedBytes } = files[index]!;
    const isFull =
      batch.length === maxFiles || bytes + size > maxBytes || length + uri.length > maxUrisLength;
    if (isFull && batch.length > 0) {
      yield batch;
      batch = [];
      [bytes, length] = [0, 0];
    }
    batch.push(index);
    bytes += size;
    length += uri.length;
  }
  if (batch.length > 0) yield batch;
}

interface BatchRun extends TogetherOptions {
  readonly files: readonly FileAmongMany[];
  readonly disk: SmallFileDisk;
}

/** Saves the files of one call, and asks again for what is missing after a break. */
async function saveBatch(
  client: RequestingClient,
  run: BatchRun,
  batch: readonly number[],
): Promise<void> {
  const { files, settings, bounds } = run;
  let missing = batch;
  for (let attempts = 0; missing.length > 0;) {
    const uris = missing.map((index) => files[index]!.uri);
    const ended = new Set<number>();
    try {
      const answer = await requestTree(client, uris, settings, bounds);
      await new TreeReceiver(run, missing, ended).receive(answer);
    } catch (error) {
      settings.signal.throwIfAborted();
      if (isOfWay(error)) {
        for (const index of missing) if (!ended.has(index)) run.onEnd(index, { alone: true });
        return;
      }
      // a server that goes on breaking after each file still gets on
      attempts = ended.size > 0 ? 0 : attempts + 1;
      const pauseMs = pauseAfter(error, attempts);
      if (pauseMs === undefined)
        throw withName(error, files[missing.find((index) => !ended.has(index))!]?.uri);
      await sleep(pauseMs * settings.timeouts.pauseScale, settings.signal);
    }
    missing = missing.filter((index) => !ended.has(index));
  }
}

/** True if the server does not serve files together, but may one by one. */
function isOfWay(error: unknown): boolean {
  return (
    SluiceError.is(error) && (error.code === "unsupported" || error.code === "invalid_argument")
  );
}

/** The error of a response with the first file that it did not bring. */
function withName(error: unknown, uri: string | undefined): unknown {
  if (!SluiceError.is(error) || error.origin === diskOrigin || uri === undefined) return error;
  const { code, retryAfterMs } = error;
  const words = error.message.replace(/^(?:client|tree): /, "");
  const options = { cause: error, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  return new SluiceError(code, `client: ${JSON.stringify(uri)} among others: ${words}`, options);
}

/** Milliseconds before another call; `undefined` if it would not help. */
function pauseAfter(error: unknown, attempts: number): number | undefined {
  if (!SluiceError.is(error) || error.origin === diskOrigin) return undefined;
  if (!passing.has(error.code)) return undefined;
  return retryDelayMs(attempts, error.retryAfterMs, Math.random());
}

const passing: ReadonlySet<string> = new Set(["interrupted", "throttled", "unavailable"]);

interface FileInProgress {
  readonly index: number;
  readonly head: TreeHead;
  readonly hash: Hash;
  readonly chunks: Uint8Array[];
}

/** Files that are written at once; their bytes lie in memory until they are durable. */
const maxSaving = 32;
const maxSavingBytes = 8 * 2 ** 20;

/** Receives one response. */
class TreeReceiver {
  readonly #run: BatchRun;
  readonly #asked: readonly number[];
  readonly #ended: Set<number>;
  readonly #saving = new Set<Promise<void>>();
  #savingBytes = 0;
  #fault: { readonly error: unknown } | undefined;
  #file: FileInProgress | undefined;

  constructor(run: BatchRun, asked: readonly number[], ended: Set<number>) {
    this.#run = run;
    this.#asked = asked;
    this.#ended = ended;
  }

  /** Saves what arrives. Settles once nothing is written any more. */
  async receive({ body, origin }: TreeAnswer): Promise<void> {
    const { settings, bounds, admit } = this.#run;
    const { signal, timeouts } = settings;
    const reader = new TreeReader({
      files: this.#asked.length,
      maxBytes: bounds.maxBytes,
      maxFileBytes: maxFileBytesOf(settings),
    });
    let late: SluiceError | undefined;
    const rules = { ...throughputRules(timeouts), totalMs: totalMsOf(timeouts, bounds.maxBytes) };
    const stop = (reason: SluiceError): void => ((late = reason), body.cancel(reason));
    const watch = watchThroughput(rules, (how) => stop(lateError(how, lateBytes)), systemClock);
    try {
      watch.hold();
      await admit?.(origin);
      watch.go();
      await body.pump(async (chunk, release) => {
        watch.moved(chunk.length);
        watch.hold();
        // the memory may be lent, and files keep theirs until they are written
        const ownChunk = release ? new Uint8Array(chunk) : chunk;
        release?.();
        for (const event of reader.read(ownChunk)) await this.#take(event);
        watch.go();
      });
      reader.ensureEnded();
    } catch (error) {
      body.cancel(error);
      signal.throwIfAborted();
      throw this.#fault ? this.#fault.error : (late ?? error);
    } finally {
      watch.stop();
      await Promise.all(this.#saving);
    }
    if (this.#fault) throw this.#fault.error;
  }

  async #take(event: TreeEvent): Promise<void> {
    if (this.#fault) throw this.#fault.error;
    if (event.kind === "refusal") return this.#leave(this.#asked[event.refusal.i]!);
    if (event.kind === "head") {
      const { head } = event;
      const index = this.#asked[head.i]!;
      this.#file = { index, head, hash: createHash("sha256"), chunks: [] };
      return undefined;
    }
    const file = this.#file!;
    if (event.kind === "trailer") return this.#finish(file, event.trailer);
    const { bytes } = event;
    file.hash.update(bytes);
    file.chunks.push(bytes);
    this.#run.onBytes?.(bytes.length);
    await this.#run.pace?.(bytes.length);
  }

  /** Begins to save a file whose bytes are here; waits while too many are. */
  async #finish(file: FileInProgress, { ok, sha256: promised }: TreeTrailer): Promise<void> {
    const { index, head } = file;
    const wantedFile = this.#run.files[index]!;
    const sha256 = file.hash.digest("hex");
    const digests = [promised, wantedFile.sha256].filter((digest) => digest !== undefined);
    const isRight =
      ok &&
      (wantedFile.size ?? head.size) === head.size &&
      digests.every((digest) => digest === sha256) &&
      (promised !== undefined || !this.#run.settings.requireDigest);
    if (!isRight) return this.#leave(index);
    const verified = digests.length === 0 ? "length" : "digest";
    const saving = this.#save(file, { sha256, verified }).finally(() => {
      this.#saving.delete(saving);
      this.#savingBytes -= head.size;
    });
    this.#saving.add(saving);
    this.#savingBytes += head.size;
    while (this.#saving.size >= maxSaving || this.#savingBytes > maxSavingBytes)
      await Promise.race(this.#saving);
  }

  /** Never rejects: a fault of the disk that is not of the file stops everything. */
  async #save(
    { index, head, chunks }: FileInProgress,
    facts: Pick<SavedFile, "sha256" | "verified">,
  ): Promise<void> {
    const { files, disk, onEnd } = this.#run;
    const { size, modifiedMs } = head;
    try {
      const path = await files[index]!.place();
      await disk.save(path, { chunks, size, modifiedMs });
      this.#ended.add(index);
      onEnd(index, { saved: { path, size, resumedBytes: 0, ...facts } });
    } catch (error) {
      if (SluiceError.is(error) && error.code === "already_exists") {
        this.#ended.add(index);
        onEnd(index, { error });
      } else this.#fault ??= { error };
    }
  }

  #leave(index: number): void {
    this.#ended.add(index);
    this.#run.onEnd(index, { alone: true });
  }
}
