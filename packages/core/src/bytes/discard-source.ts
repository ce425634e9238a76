import type { Source } from "./source.ts";

/** Releases a source without reading it. Never rejects. */
export async function discardSource(source: Source, error?: unknown): Promise<void> {
  if (source.bytes) return;
  // asking for `body` may be what makes it, so only where there is no file
  await (source.file?.close() ?? source.body.cancel(error)).catch(() => {});
}
