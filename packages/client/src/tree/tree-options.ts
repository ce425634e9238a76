import type { RequestingClient } from "../calls/stream-calls.ts";
import type { SavedFile } from "../download/save-options.ts";
import type { StreamOptions, TransferCount } from "../download/stream-options.ts";

/** A resource of a tree. */
export interface TreeFile {
  readonly uri: string;
  /**
   * Where it goes below the folder: names with `/` between them, each of which this system may save under. Never take it
   * from a server unchecked: it decides which files of yours are written.
   */
  readonly path: string;
  /** Bytes, if a list of the server says so. */
  readonly size?: number;
  /** SHA-256 in lower-case hex that it must have, if you know it. */
  readonly sha256?: string;
}

/** Options of {@link saveTree}. */
export interface SaveTreeOptions extends Pick<
  StreamOptions,
  "signal" | "trustedOrigins" | "requireDigest" | "consent" | "timeouts"
> {
  /** Largest file, in bytes. Default: any that the disk has room for. */
  readonly maxStreamBytes?: number;
  /** Replace existing files. Without it nothing that exists is ever touched. */
  readonly overwrite?: boolean;
  /** Files that are fetched at once by a call of their own, 1 to 16. Default: 4. */
  readonly jobs?: number;
  /** Called with the bytes of all files that arrived, at most once a chunk. It must not throw. */
  readonly onProgress?: (progress: TransferCount) => void;
}

/** A file of a tree that was saved. */
export interface SavedTreeFile extends SavedFile {
  readonly uri: string;
}

/** A file of a tree that was not saved. */
export interface FailedTreeFile {
  readonly uri: string;
  readonly error: unknown;
}

/** What became of a tree, in the order of its files. */
export interface SavedTree {
  readonly saved: readonly SavedTreeFile[];
  readonly failed: readonly FailedTreeFile[];
}

/** Saves a tree. */
export type SaveTree = (
  client: RequestingClient,
  files: readonly TreeFile[],
  folder: string,
  options?: SaveTreeOptions,
) => Promise<SavedTree>;
