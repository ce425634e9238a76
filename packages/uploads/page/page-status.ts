import type { endings } from "../src/page/page-endings.ts";
import { type Answer, get, Interrupted, send } from "./http.ts";

/** What became of the question, as the server tells it. */
export interface PageStatus {
  readonly phase: "open" | "expired" | keyof typeof endings;
  /** Which answer it was. */
  readonly answerId?: string;
}

/** Asks the server what became of the question. Rejects with {@link Interrupted} when it cannot say. */
export async function askPage(url: string): Promise<PageStatus> {
  const { signal } = new AbortController();
  const answer = await get(url, signal, { accept: "application/json" });
  if (answer.status === 404 || answer.status === 410) return { phase: "expired" };
  if (answer.status !== 200) throw new Interrupted("The server is busy.");
  return answer.json as PageStatus;
}

/** Gives the answer to the server. Says what is wrong with it and what to do; nothing if the status of the page tells. */
export async function answerPage(url: string, body: object): Promise<string | undefined> {
  let answer: Answer;
  try {
    answer = await send({
      method: "POST",
      url,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    });
  } catch {
    return "The server cannot be reached. Your files are not lost: check your connection and press the button again.";
  }
  const { status } = answer;
  const { reason, detail } = (answer.json ?? {}) as { readonly [name: string]: unknown };
  if (status === 409 && reason === "changed")
    return "The files that are here have changed, perhaps in another tab. Look through the list, then press the button again.";
  if (status === 400 && typeof detail === "string")
    return `The answer does not fit: ${detail}. Change it, then press the button again.`;
  if (status === 413)
    return "The answer is too long. Shorten what you wrote, then press the button again.";
  if (status >= 400 && ![404, 409, 410].includes(status))
    return "The server did not take the answer. Wait a moment, then press the button again.";
  return undefined;
}
