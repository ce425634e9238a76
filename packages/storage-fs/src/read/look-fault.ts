import { basename } from "node:path";
import type { UnlistedReason } from "@sluice/storage/plugin";
import { systemCode } from "../root/fs-error.ts";

/** Why an entry at `path` cannot be looked at, by the error of looking; `undefined` if it is gone by now. */
export function lookFault(error: unknown, path: string): UnlistedReason | undefined {
  const code = systemCode(error);
  if (code !== "ENOENT" && code !== "ENOTDIR") return code === "ELOOP" ? "link" : "unreadable";
  // a name that is not UTF-8 was read with U+FFFD in it, and under that name there is nothing
  return basename(path).includes("\ufffd") ? "notUtf8" : undefined;
}
