import type { Members } from "../relay/messages.ts";
import type { SpoolFolder } from "../spool/files/spool-folder.ts";
import type { SavedResource } from "./save-call.ts";
import { toolResult } from "./tool-answer.ts";

/** Most files of a kind that are remembered and listed. */
export const mostListed = 1_000;

/** The result of `save_resource`. */
export function savedResult({
  path,
  size,
  sha256,
  verified,
  resumedBytes,
}: SavedResource): Members {
  const facts = { path, size, sha256, verified, resumed_bytes: resumedBytes };
  return toolResult(`Saved to ${path}, ${size} bytes, sha-256 ${sha256}`, facts);
}

/** The result of `list_saved`: what this process saved, and the large results that any process left. */
export async function listResult(
  saves: readonly SavedResource[],
  spoolFolder: SpoolFolder | undefined,
): Promise<Members> {
  const results = (await spoolFolder?.list()) ?? [];
  const files = [
    ...saves.map(({ path, size }) => ({ path, size, kind: "saved" })),
    ...results.slice(-mostListed).map(({ path, bytes }) => ({ path, size: bytes, kind: "result" })),
  ];
  const lines = files.map(({ path, size }) => `${path} (${size} bytes)`);
  return toolResult(lines.length === 0 ? "No file was saved." : lines.join("\n"), { files });
}
