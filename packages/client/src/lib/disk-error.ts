import { SluiceError, type SluiceErrorCode } from "@sluice/core";

/** A file system fault as an error of ours that says what to do. Anything else passes unchanged. */
export function diskError(what: string, error: unknown): unknown {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === undefined || SluiceError.is(error)) return error;
  const [ours, hint] = rows[code] ?? ["internal", `the file system failed (${code})`];
  return new SluiceError(ours, `client: ${what}: ${hint}`, { cause: error });
}

const full: Row = ["no_space", "the disk is full; make room or save elsewhere"];
const denied: Row = ["permission_denied", "writing is not permitted here; choose another folder"];
const missing: Row = ["not_found", "there is no such folder; create it first"];

type Row = readonly [SluiceErrorCode, string];

const rows: Readonly<Record<string, Row>> = {
  ENOSPC: full,
  EDQUOT: full,
  EACCES: denied,
  EPERM: denied,
  EROFS: denied,
  ENOENT: missing,
  ENOTDIR: missing,
  EEXIST: ["already_exists", "something is there; choose another name, or pass overwrite"],
  EISDIR: ["already_exists", "a folder is there; choose another name"],
  ENAMETOOLONG: ["invalid_argument", "the name is too long"],
  EFBIG: ["too_large", "the file system takes no file of this size"],
  EMFILE: ["unavailable", "too many open files; try again later"],
  ENFILE: ["unavailable", "too many open files; try again later"],
};
