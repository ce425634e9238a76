import type { SavedFile, SaveOptions } from "./save-options.ts";
import type { StreamFacts } from "./stream-options.ts";

/** A resource on its way. Read `body` to its end or cancel it, or save it: one of the two, once. */
export interface ResourceStream extends StreamFacts {
  /**
   * The bytes, once. Nothing is read before the first pull. A broken connection mends itself; a clean end means that
   * length and digest are right, if they were promised. Errors with a `SluiceError`, or with `signal.reason`.
   */
  readonly body: ReadableStream<Uint8Array>;
  /**
   * Saves the bytes to a file. `path` is the file itself, or a folder when it is one or ends with a separator; the
   * server's name is used only in a folder, and made safe.
   *
   * The bytes go to a hidden file beside the target, counted and hashed; the file appears under its name at once, whole
   * and verified, or not at all. Nothing that exists is replaced unless `overwrite` says so: in a folder a numbered
   * name is taken, a file of that path is `already_exists`. The file gets the permissions of any new file there, or
   * keeps those of the file of this user that it replaces, and the time of the server's `Last-Modified` (RFC 9110
   * §8.8.2) unless that is in the future.
   *
   * Also rejects with `no_space`, `permission_denied`, `invalid_argument` for a name that the disk rejects, `too_large`
   * for a file that is too large for the file system, `corrupt`, `interrupted`, `throttled`, `timeout`,
   * `precondition_failed`, or with `signal.reason`. Pages, Workers and Deno have portable code, which saves no files:
   * there it rejects with `unsupported`.
   */
  saveTo(path: string, options?: SaveOptions): Promise<SavedFile>;
}
