import { resolve } from "node:path";
import { SluiceError } from "@sluice/core";
import { definedMembers, ensureKnownOptions, isPlainPath, onAbort } from "@sluice/core/internal";
import type { RequestingClient } from "../calls/stream-calls.ts";
import { ensureConsent, scaleOf } from "../download/consent.ts";
import { settingsOf, type Consent } from "../download/stream-options.ts";
import { diskOrigin } from "../save/disk-error.ts";
import { streamToSave } from "../save/savable-stream.ts";
import { boundsFor } from "./request-tree.ts";
import { saveTogether, type EndAmongMany } from "./save-together.ts";
import { pathKey, TreeFolder } from "./tree-folder.ts";
import type {
  FailedTreeFile,
  SavedTree,
  SavedTreeFile,
  SaveTreeOptions,
  TreeFile,
} from "./tree-options.ts";

/**
 * Saves resources as files below a folder, which is made if it is missing. Small ones come many with each response if the
 * server declares it, the others by a call for each, as `saveResource` gets them. Each file is verified and appears whole or not
 * at all. A file that is refused is among `failed`, and the others are saved; a call after that with the files that failed goes on.
 *
 * Consent is asked once for the whole tree, before the first byte is written, if small files come together; for a file that is
 * larger than its `size` or comes from another host, and without such responses, for each.
 *
 * Rejects with a `TypeError` for a path that is not plain or is there twice, before anything is requested; and as `saveResource`
 * does when the server, the connection or the disk does no more. Files that were saved by then stay.
 */
export async function saveTree(
  client: RequestingClient,
  files: readonly TreeFile[],
  folder: string,
  options: SaveTreeOptions = {},
): Promise<SavedTree> {
  ensureKnownOptions("saveTree", options, optionNames);
  ensurePaths(files);
  const { jobs = 4 } = options;
  if (!(Number.isInteger(jobs) && jobs >= 1 && jobs <= 16))
    throw new TypeError("saveTree: jobs is 1 to 16");
  const stop = new AbortController();
  const removeListener = onAbort(options.signal, (reason) => stop.abort(reason));
  try {
    const runOptions = { ...options, jobs, signal: stop.signal };
    return await new TreeRun(client, files, folder, runOptions).save((error) => stop.abort(error));
  } catch (error) {
    stop.abort(error);
    throw error;
  } finally {
    removeListener();
  }
}

const optionNames: Readonly<Record<keyof SaveTreeOptions, true>> = {
  consent: true,
  jobs: true,
  maxStreamBytes: true,
  onProgress: true,
  overwrite: true,
  requireDigest: true,
  signal: true,
  timeouts: true,
  trustedOrigins: true,
};

function ensurePaths(files: readonly TreeFile[]): void {
  const takenPaths = new Set<string>();
  for (const { path } of files) {
    if (typeof path !== "string" || !isPlainPath(path))
      throw new TypeError(
        `saveTree: the path ${JSON.stringify(path)} is not plain names with / between them`,
      );
    const key = pathKey(path);
    if (takenPaths.has(key))
      throw new TypeError(`saveTree: two files have the path ${JSON.stringify(path)}`);
    takenPaths.add(key);
  }
}

type RunOptions = SaveTreeOptions & { readonly jobs: number; readonly signal: AbortSignal };

class TreeRun {
  readonly #client: RequestingClient;
  readonly #files: readonly TreeFile[];
  readonly #folder: string;
  readonly #options: RunOptions;
  readonly #place: TreeFolder;
  readonly #saved = new Map<number, SavedTreeFile>();
  readonly #failed = new Map<number, FailedTreeFile>();
  /** Host that the whole tree was agreed to come from. */
  #agreedHost: string | undefined;
  readonly #totalBytes: number | undefined;
  #receivedBytes = 0;

  constructor(
    client: RequestingClient,
    files: readonly TreeFile[],
    folder: string,
    options: RunOptions,
  ) {
    this.#client = client;
    this.#files = files;
    this.#folder = folder;
    this.#options = options;
    this.#place = new TreeFolder(resolve(folder));
    this.#totalBytes = totalOf(files);
  }

  /** `stop` ends the other calls after a fault of one. */
  async save(stop: (error: unknown) => void): Promise<SavedTree> {
    const { jobs, signal } = this.#options;
    const alone = await this.#saveTogether();
    let next = 0;
    const work = async (): Promise<void> => {
      try {
        while (next < alone.length) await this.#saveAlone(alone[next++]!);
      } catch (error) {
        stop(error);
      }
    };
    await Promise.all(Array.from({ length: Math.min(jobs, alone.length) }, work));
    // thrown once nothing is written any more
    signal.throwIfAborted();
    const inOrder = <End>(ends: ReadonlyMap<number, End>): End[] =>
      this.#files.flatMap((_, index) => ends.get(index) ?? []);
    return { saved: inOrder(this.#saved), failed: inOrder(this.#failed) };
  }

  /** Saves what comes in common responses, and gives the indexes of the others. */
  async #saveTogether(): Promise<number[]> {
    const bounds = boundsFor(this.#client);
    if (!bounds) return [...this.#files.keys()];
    const alone: number[] = [];
    const { overwrite = false } = this.#options;
    await saveTogether(
      this.#client,
      this.#files.map((file) => ({ ...file, place: () => this.#place.place(file.path) })),
      {
        settings: settingsOf(this.#options),
        bounds,
        overwrite,
        admit: (origin) => this.#admit(origin),
        onBytes: (bytes) => this.#count(bytes),
        onEnd: (index, end) => (end.alone ? void alone.push(index) : this.#end(index, end)),
      },
    );
    return alone;
  }

  async #saveAlone(index: number): Promise<void> {
    const { uri, path, sha256 } = this.#files[index]!;
    const {
      jobs: _jobs,
      onProgress: _onProgress,
      overwrite = false,
      consent,
      ...options
    } = this.#options;
    let fileBytes = 0;
    try {
      const place = await this.#place.place(path);
      const consented = consent && this.#consentFor(index, consent);
      const stream = await streamToSave(this.#client, uri, place, {
        ...options,
        ...definedMembers({ consent: consented }),
      });
      const saved = await stream.saveTo(place, {
        overwrite,
        resume: true,
        ...definedMembers({ sha256 }),
        onProgress: ({ bytes }) => {
          this.#count(bytes - fileBytes);
          fileBytes = bytes;
        },
      });
      this.#end(index, { saved });
    } catch (error) {
      this.#options.signal.throwIfAborted();
      if (!isOfFile(error)) throw error;
      this.#end(index, { error });
    }
  }

  /** Asks once for consent to the whole tree, when it is known where it comes from. */
  async #admit(origin: string): Promise<void> {
    const { consent, signal } = this.#options;
    if (!consent || this.#agreedHost !== undefined) return;
    const facts = this.#files.map(({ size }) => definedMembers({ origin, size }));
    await ensureConsent(consent, scaleOf(facts, this.#folder), signal);
    this.#agreedHost = new URL(origin).host;
  }

  #consentFor(index: number, consent: Consent): Consent {
    const { size: agreedBytes } = this.#files[index]!;
    return (scale) => {
      const { from, bytes, unknownSizes } = scale;
      const isAgreed =
        from.every((host) => host === this.#agreedHost) &&
        (agreedBytes === undefined || (unknownSizes === 0 && bytes <= agreedBytes));
      return (isAgreed && this.#agreedHost !== undefined) || consent(scale);
    };
  }

  #end(index: number, { saved, error }: EndAmongMany): void {
    const { uri } = this.#files[index]!;
    if (saved) this.#saved.set(index, { uri, ...saved });
    else this.#failed.set(index, { uri, error });
  }

  #count(bytes: number): void {
    this.#receivedBytes += bytes;
    const counted = { bytes: this.#receivedBytes, totalBytes: this.#totalBytes };
    this.#options.onProgress?.(definedMembers(counted));
  }
}

/** Bytes of all files; `undefined` if the size of one is unknown. */
function totalOf(files: readonly TreeFile[]): number | undefined {
  const sizes = files.map(({ size }) => size);
  return sizes.reduce(
    (sum, size) => (sum === undefined || size === undefined ? undefined : sum + size),
    0,
  );
}

/** True for a fault after which other files may still be saved. */
function isOfFile(error: unknown): boolean {
  if (!SluiceError.is(error)) return false;
  if (error.origin === diskOrigin) return error.code === "already_exists";
  return fileCodes.has(error.code);
}

const fileCodes: ReadonlySet<string> = new Set([
  "already_exists",
  "corrupt",
  "expired",
  "invalid_argument",
  "not_found",
  "permission_denied",
  "precondition_failed",
  "protocol",
  "too_large",
  "unsupported",
  "untrusted",
]);
