import type { RequestingClient } from "../calls/stream-calls.ts";
import type { StreamOptions, TransferCount } from "./stream-options.ts";

/** Options of `saveTo`. */
export interface SaveOptions {
  /** Replace an existing file. Without it nothing that exists is ever touched. */
  readonly overwrite?: boolean;
  /** A name for the file in a folder, instead of the server's suggestion. It is also made safe. */
  readonly name?: string;
  /**
   * Maximum connections to fetch with at once, 1 to 16; 1 if absent or the server cannot serve ranges. More are opened
   * while the file waits for bytes, none while the disk is the limit. Fewer once the server refuses one (429, 503) or
   * one breaks for good.
   */
  readonly connections?: number;
  /**
   * Keep the bytes of an interrupted transfer, even on a full disk, in a hidden file next to the target, and resume
   * from there when the same resource is saved to the same place again.
   */
  readonly resume?: boolean;
  /** Called with the running count at most once a chunk. It must not throw. */
  readonly onProgress?: (progress: TransferCount) => void;
  /**
   * Called before bytes are written, which wait for it: once with the file's length if it comes in ranges, else before each
   * chunk with the length so far. A rejection ends the save.
   */
  readonly reserve?: (bytes: number) => Promise<void>;
}

/** Options of `saveResource`. */
export interface SaveResourceOptions extends StreamOptions, SaveOptions {}

/** A file that was saved. */
export interface SavedFile {
  /** Absolute. */
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** Of the bytes on the disk, lower-case hex. */
  readonly sha256: string;
  /** `digest`: it equals the SHA-256 that the server promised · `length`: the server promised none. */
  readonly verified: "digest" | "length";
  /** Bytes that an earlier run had left. */
  readonly resumedBytes: number;
}

/** Saves a resource as a file. */
export type SaveResource = (
  client: RequestingClient,
  uri: string,
  path: string,
  options?: SaveResourceOptions,
) => Promise<SavedFile>;
