import { sleep, systemClock } from "@sluice/core/async";
import { z } from "zod";
import type { BinaryQuestion } from "./elicit-fields.ts";
import type { PageOutcome } from "../page/page-outcome.ts";

/** A question that is answered on a page in the user's browser, for clients that send no files themselves. */
export interface PageQuestion {
  /** 32 characters of base64url. */
  readonly pageId: string;
  /** As a client that can send files gets it; the slots authenticate themselves. */
  readonly question: BinaryQuestion;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  /** In whose share of the state store it counts, as `Identity` says; its pages are bounded together. */
  readonly owner?: string | undefined;
}

/** The page: it shows the question, sends the files to their slots, and keeps what the user did. */
export interface UploadPages {
  /**
   * Keeps the question until it expires, and gives the URL of its page. A secret. Throws `throttled` when 16 pages
   * of the owner are open, `too_large` for a question of more than 64 KiB, and what the store throws.
   */
  pageUrl(question: PageQuestion): Promise<string>;
  /**
   * Takes what the user did, as an elicitation result: `{action, content?}`. `undefined` while there is no answer, and
   * after it was taken. Every holder of the URL may have answered: it is read like the answer of a client.
   */
  answerOf(pageId: string, options?: { readonly signal?: AbortSignal }): Promise<unknown>;
  /** Says how it ended: the page tells the user, and only this is kept of it. */
  conclude(pageId: string, outcome: PageOutcome): Promise<void>;
}

/**
 * Waits for the answer on the page; `undefined` when there was none within `waitMs`. It asks again and
 * again, up to every two seconds, since it may be another process that the page talks to.
 */
export async function awaitAnswer(
  pages: UploadPages,
  pageId: string,
  options: { readonly waitMs: number; readonly signal: AbortSignal },
): Promise<unknown> {
  const { waitMs, signal } = options;
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
