import { parseMediaType } from "@sluice/core";

/** Longest answer that is read. */
const maxBytes = 65_536;

/** Collects the body of an answer while it is JSON and short. */
export interface AnswerText {
  /** False: the rest is of no interest. */
  add(chunk: Uint8Array): boolean;
  /** Its JSON; `undefined` when it is none. */
  json(): unknown;
}

/** Reads an answer of this `Content-Type`. */
export function createAnswerText(contentType: string | null): AnswerText {
  const essence = parseMediaType(contentType)?.essence;
  const isJson = essence === "application/json" || essence === "application/problem+json";
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = "";
  return {
    add(chunk) {
      bytes += chunk.length;
      if (bytes > maxBytes) return false;
      if (isJson) text += decoder.decode(chunk, { stream: true });
      return true;
    },
    json() {
      if (!isJson || bytes > maxBytes) return undefined;
      try {
        return JSON.parse(text + decoder.decode());
      } catch {
        return undefined;
      }
    },
  };
}
