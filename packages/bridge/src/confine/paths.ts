import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { isPlainPath } from "@sluice/core/internal";

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

/** The same for a file that is there: one of the user may begin with `-` or `~`. */
export function namesOfOwn(path: string): readonly string[] {
  namesOf(path.replaceAll(/(^|\/)[-~]/g, "$1_"));
  return path.split("/");
}

/**
 * The names in a relative path. Throws `invalid_argument` for one that leads out of its folder or into a hidden one, and
 * for names that a file must not have.
 */
export function namesOf(path: string): readonly string[] {
  const names = path.split("/");
  if (isPlainPath(path) && names.length <= maxNames) return names;
  throw new SluiceError(
    "invalid_argument",
    "bridge: pass a path such as reports/2026.pdf: relative, without .., hidden names and special characters",
  );
}

const maxNames = 16;
