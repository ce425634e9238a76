import { SluiceError, type SluiceErrorCode } from "@sluice/core";

/** A fault of the file system, in words for a model; `path` is the user's own. Anything else passes unchanged. */
export function diskFault(error: unknown, path?: string): unknown {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === undefined || SluiceError.is(error)) return error;
  const [ours, words] = rows[code] ?? ["unavailable", `the disk failed (${code})`];
  return new SluiceError(ours, `bridge: ${path === undefined ? "" : `${path}: `}${words}`, {
    cause: error,
  });
}

const denied: readonly [SluiceErrorCode, string] = ["permission_denied", "that is not permitted"];
const absent: readonly [SluiceErrorCode, string] = ["not_found", "there is no such file or folder"];
const rows: Readonly<Record<string, readonly [SluiceErrorCode, string]>> = {
  ENOENT: absent,
  ENOTDIR: absent,
  EACCES: denied,
  EPERM: denied,
  EROFS: denied,
  ENOSPC: ["no_space", "the disk is full; make room"],
  EDQUOT: ["no_space", "the disk is full; make room"],
};
