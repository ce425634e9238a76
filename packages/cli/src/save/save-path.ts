import { createHash } from "node:crypto";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { definedMembers, discardSource, isPlainPath, localFileName } from "@sluice/core/internal";
import type { StorageBackend } from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";

/** The key in the folder: the path that was asked for, and after a final slash the resource's own name. */
export function targetOf(path: string | undefined, key: string): string {
  const ownName = localFileName(key);
  if (path === undefined || path === "") return ownName;
  const whole = path.endsWith("/") ? path + ownName : path;
  if (!isPlainPath(whole))
    throw new PathError(
      "pass a path such as reports/2026.pdf: relative, without .., without hidden names and special characters",
      { cause: new SluiceError("invalid_argument", "save_to: the path is not plain") },
    );
  return whole;
}

/** A place that cannot be written, with what a model can do about it. */
export class PathError extends Error {
  override readonly name = "PathError";
}

/** Throws a fault of the target folder: it says nothing of the resource. */
export function rethrowOfTarget(error: unknown): never {
  const sentence = SluiceError.is(error) ? targetSentences[error.code] : undefined;
  throw sentence === undefined ? error : new PathError(sentence, { cause: error });
}

/** Throws a fault of the room that all saved files have together. */
export function rethrowOfRoom(error: unknown): never {
  if (!SluiceError.is(error) || error.code !== "no_space") return rethrowOfTarget(error);
  throw new PathError(
    "there is no room for more saved files: ask the user to delete some, or to raise --max-total",
    { cause: error },
  );
}

/** True for the refusal of a name that a file has already. */
export function isTaken(error: unknown): boolean {
  return (
    SluiceError.is(error) &&
    (error.code === "precondition_failed" || error.code === "already_exists")
  );
}

const takenPath = "a file of that name is there already: pass another path";
const otherPath = "it cannot be written there: pass another path";

const targetSentences: Partial<Record<SluiceErrorCode, string>> = {
  precondition_failed: takenPath,
  already_exists: takenPath,
  not_found: otherPath,
  invalid_argument: otherPath,
  permission_denied: otherPath,
  unsupported: otherPath,
  no_space: "the disk is full",
  too_large: "the file system takes no file of that size",
};

interface FileFacts {
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
}

/** True when the file of a name has these very bytes: a call that a host repeats has saved it before. */
export async function isSameFile(
  target: StorageBackend,
  name: string,
  { size, sha256 }: FileFacts,
  signal?: AbortSignal,
): Promise<boolean> {
  const opened = await unlessMissing(target.open(name, definedMembers({ signal })));
  if (opened?.info.size !== size) {
    if (opened) await discardSource(opened);
    return false;
  }
  const hash = createHash("sha256");
  for await (const chunk of opened.body) hash.update(chunk);
  return hash.digest("hex") === sha256;
}
