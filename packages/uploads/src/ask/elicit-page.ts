import { sleep, systemClock } from "@sluice/core/async";
import { z } from "zod/v4";
import type { UploadPages } from "../page/upload-pages.ts";

/**
 * Waits for the answer on the page; `undefined` when there is none within `waitMs`. It asks the store, at the end every
 * two seconds: the page may talk to another process.
 */
export async function awaitAnswer(
  pages: Pick<UploadPages, "answerOf">,
  pageId: string,
  { waitMs, signal }: { readonly waitMs: number; readonly signal: AbortSignal },
): Promise<unknown> {
  const until = systemClock.now() + waitMs;
  for (let everyMs = 100; ; everyMs = Math.min(everyMs * 1.5, 2_000)) {
    signal.throwIfAborted();
    const answer = await pages.answerOf(pageId, { signal });
    const leftMs = until - systemClock.now();
    if (answer !== undefined || leftMs <= 0) return answer;
    await sleep(Math.min(everyMs, leftMs), signal);
  }
}

/** True where a client agreed to open the page, or repeated its call only to wait. */
export function isConsent(raw: unknown): boolean {
  return raw === undefined || consentSchema.safeParse(raw).success;
}

const consentSchema = z.looseObject({ action: z.literal("accept") });
