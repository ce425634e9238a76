import { partsOnce } from "@sluice/core/internal";

/** What an error says as part of another sentence: without our package in front, and nothing of it twice. */
export function wordsOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return partsOnce(message.replace(/^(?:bridge|client|fs|proxy): /, ""));
}

/** The same with the cause in parentheses, if the error does not have it in its words. */
export function wordsWithCause(error: Error): string {
  const words = wordsOf(error);
  const cause = error.cause instanceof Error ? wordsOf(error.cause) : "";
  return words.includes(cause) ? words : `${words} (${cause})`;
}
