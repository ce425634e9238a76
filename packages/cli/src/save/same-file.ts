import { createHash } from "node:crypto";
import { definedMembers, discardSource } from "@sluice/core";
import type { StorageBackend } from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";

/** A file by its bytes. */
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
