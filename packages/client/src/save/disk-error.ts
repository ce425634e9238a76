import { SluiceError, type SluiceErrorCode } from "@sluice/core";

/** Origin of errors that are about the disk of this machine, not about the server. */
export const diskOrigin = "disk";

/** A file system fault as an error of ours that says how to fix it. Anything else passes unchanged. */
export function diskError(what: string, error: unknown): unknown {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === undefined || SluiceError.is(error)) return error;
  const [ours, hint] = rows[code] ?? ["internal", `the file system failed (${code})`];
  return new SluiceError(ours, `client: ${what}: ${hint}`, { cause: error, origin: diskOrigin });
}

/** True for a fault that room on the disk, or in the user's share of it, mends. */
export function isFullDisk(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === "no_space" || code === "ENOSPC" || code === "EDQUOT";
}

const denied: DiskFault = [
  "permission_denied",
  "writing is not permitted here; choose another folder",
];
const elsewhere: DiskFault = [
  "invalid_argument",
  "the file system takes no such name; choose another",
];
const busy: DiskFault = [
  "unavailable",
  "too many open files; close some, or raise the limit (ulimit -n)",
];

type DiskFault = readonly [SluiceErrorCode, string];

const rows: Readonly<Record<string, DiskFault>> = {
  ENOSPC: ["no_space", "the disk is full; make room or save elsewhere"],
  EDQUOT: ["no_space", "your quota is used up; delete files of yours or save elsewhere"],
  EACCES: denied,
  EPERM: denied,
  EROFS: ["permission_denied", "the file system is read-only; save elsewhere"],
  ENOENT: ["not_found", "there is no such folder; create it first"],
  ENOTDIR: ["invalid_argument", "a part of the path is a file; choose another path"],
  ELOOP: ["invalid_argument", "links of the path lead in a circle; choose another path"],
  EEXIST: ["already_exists", "something is there; choose another name, or pass overwrite"],
  EISDIR: ["already_exists", "a folder is there; choose another name"],
  ENAMETOOLONG: ["invalid_argument", "the name is too long; choose a shorter one"],
  EINVAL: elsewhere,
  EILSEQ: elsewhere,
  EFBIG: [
    "too_large",
    "neither the file system nor the limit of this process takes a file of this size; save to another file system, or raise the limit (ulimit -f)",
  ],
  EIO: ["internal", "the disk failed; check it, or save to another one"],
  EMFILE: busy,
  ENFILE: busy,
};
