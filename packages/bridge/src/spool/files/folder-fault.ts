import { SluiceError, type SluiceErrorCode } from "@sluice/core";

/** A fault of the file system, as an error that says what to do. Anything else passes unchanged. */
export function folderFault(error: unknown): unknown {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === undefined || SluiceError.is(error)) return error;
  const [ours, hint] = rows[code] ?? ["internal", `the file system failed (${code})`];
  return new SluiceError(ours, `bridge: spool: ${hint}`, { cause: error });
}

type FolderFault = readonly [SluiceErrorCode, string];

const denied: FolderFault = [
  "permission_denied",
  "writing is not permitted there; name another folder",
];
const full: FolderFault = ["no_space", "the disk is full; make room or name another folder"];

const rows: Readonly<Record<string, FolderFault>> = {
  ENOENT: ["not_found", "there is no such folder; create it first"],
  ENOTDIR: ["invalid_argument", "a part of the path is a file; name a folder"],
  EACCES: denied,
  EPERM: denied,
  EROFS: denied,
  ENOSPC: full,
  EDQUOT: full,
  EMFILE: ["unavailable", "too many open files; close some, or raise the limit (ulimit -n)"],
};
