import { SluiceError } from "@sluice/core";
import type { BinaryQuestion } from "./elicit-fields.ts";

/** A question that is answered on a page in the user's browser, for clients that send no files themselves. */
export interface PageQuestion {
  /** 32 characters of base64url. */
  readonly pageId: string;
  /** As a client that can send files gets it; the slots authenticate themselves. */
  readonly question: BinaryQuestion;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

/** The page: it shows the question, sends the files to their slots, and keeps what the user did. */
export interface UploadPages {
  /** URL of the page for one question. A secret. */
  pageUrl(question: PageQuestion): string;
  /**
   * What the user did, as an elicitation result: `{action, content?}`. `undefined` while there is no answer.
   * Whoever has the URL may have answered: it is read like the answer of a client.
   */
  answerOf(pageId: string, options?: { readonly signal?: AbortSignal }): Promise<unknown>;
}

/**
 * Waits for the answer on the page; `undefined` when there was none within `waitMs`. Asks every `everyMs`, since it
 * may be another process that the page talks to.
 */
export async function awaitAnswer(
  pages: UploadPages,
  pageId: string,
  options: { readonly waitMs: number; readonly everyMs?: number; readonly signal: AbortSignal },
): Promise<unknown> {
  const { waitMs, everyMs = 1_000, signal } = options;
  const until = performance.now() + waitMs;
  for (;;) {
    signal.throwIfAborted();
    const answer = await pages.answerOf(pageId, { signal });
    const leftMs = until - performance.now();
    if (answer !== undefined || leftMs <= 0) return answer;
    await pause(Math.min(everyMs, leftMs), signal);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(settle, ms);
    function settle() {
      signal.removeEventListener("abort", settle);
      clearTimeout(timer);
      if (signal.aborted) reject(signal.reason);
      else resolve();
    }
    signal.addEventListener("abort", settle);
  });
}

/** What to say to a server author whose client can neither send files nor open the page. */
export function noWay(hasPage: boolean): SluiceError {
  const page = hasPage ? ", or `elicitation.url` to send them in the browser" : "";
  return new SluiceError(
    "unsupported",
    `uploads: this client cannot send files: it must declare \`elicitation.binary\` (SEP-1306)${page}`,
  );
}
