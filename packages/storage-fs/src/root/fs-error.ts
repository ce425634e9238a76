import { basename } from "node:path";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import type { UnlistedReason } from "@sluice/storage/plugin";

const meanings: Readonly<Record<string, readonly [SluiceErrorCode, string]>> = {
  ENOENT: ["not_found", "it is not there"],
  ENOTDIR: ["not_found", "there is no such folder"],
  EACCES: ["permission_denied", "this process may not do that"],
  EPERM: ["permission_denied", "this process may not do that"],
  ELOOP: ["permission_denied", "it is a link, and links are not followed"],
  EROFS: ["permission_denied", "the file system is read-only"],
  ENAMETOOLONG: ["invalid_argument", "the name is too long for the file system"],
  EISDIR: ["unsupported", "it is a folder"],
  // errors of a socket, and of a device without a driver
  ENXIO: ["unsupported", "it is not a regular file"],
  ENODEV: ["unsupported", "it is not a regular file"],
  EFBIG: ["too_large", "the file system accepts no file of that size"],
  ENOSPC: ["no_space", "the disk is full"],
  EDQUOT: ["no_space", "the quota is used up"],
  EMFILE: ["unavailable", "too many files are open"],
  ENFILE: ["unavailable", "too many files are open"],
};

/** The `code` of a system error ("ENOENT"), or `undefined` when it is something else. */
export function systemCode(error: unknown): string | undefined {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return typeof code === "string" ? code : undefined;
}

// #region error
/**
 * A system error as a {@link SluiceError}; one of ours passes unchanged. An unknown one (EIO,
 * ESTALE, EBUSY …) is `unavailable`: the next try may succeed. `operation` starts the message,
 * which leaves out the path that system errors name.
 */
export function toSluiceError(error: unknown, operation: string): SluiceError {
  if (SluiceError.is(error)) return error;
  const name = systemCode(error) ?? "unknown error";
  const [code, text] = meanings[name] ?? ["unavailable", "the file system failed"];
  return new SluiceError(code, `${operation}: ${text} (${name})`, { cause: error });
}
// #endregion

/** Why an entry at `path` cannot be looked at, by the error of looking; `undefined` if it is gone by now. */
export function lookFault(error: unknown, path: string): UnlistedReason | undefined {
  const code = systemCode(error);
  if (code !== "ENOENT" && code !== "ENOTDIR") return code === "ELOOP" ? "link" : "unreadable";
  // a name that is not UTF-8 was read with U+FFFD in it, and under that name there is nothing
  return basename(path).includes("\ufffd") ? "notUtf8" : undefined;
}
