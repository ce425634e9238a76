import { SluiceError, tlsFault } from "@sluice/core";
import { createAnswerText } from "./answer-json.ts";
import { answerMsOf, type Outgoing, type Sender, type SenderRequest } from "./sender.ts";

/** The shape of `fetch`. */
export type FetchLike = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** Bytes of a file that are in memory at once. */
const stepBytes = 8 * 2 ** 20;

/**
 * A sender over a web `fetch`, which tells nothing of a body before it is sent: a large file goes in
 * steps, each with a deadline, and progress is known after each.
 */
export function createFetchSender(fetch: FetchLike): Sender {
  return {
    stepBytes,
    blind: true,
    async send(request) {
      const { method, url, body } = request;
      const late = new AbortController();
      const timer = setTimeout(
        () =>
          late.abort(new SluiceError("timeout", `uploads: ${url.origin} did not answer in time`)),
        deadlineMs(request),
      );
      const signal = AbortSignal.any([request.signal, late.signal]);
      try {
        const content = body && (await contentOf(body));
        signal.throwIfAborted();
        const response = await fetch(url, {
          method,
          headers: { ...request.headers },
          ...(content && { body: content }),
          redirect: "manual",
          credentials: "omit",
          referrerPolicy: "no-referrer",
          signal,
        });
        const json = await readJson(response);
        if (body) request.onSent?.(body.length);
        const { headers } = response;
        // a redirect that is hidden is one all the same
        const status = response.type === "opaqueredirect" ? 307 : response.status;
        return { status, headers, sentAll: true, ...(json !== undefined && { json }) };
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        if (SluiceError.is(error)) throw error;
        throw (
          tlsFault("uploads", url, error) ??
          new SluiceError("interrupted", `uploads: ${url.origin} could not be reached`, {
            cause: error,
          })
        );
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

function deadlineMs({ body, timeouts }: SenderRequest): number {
  const bytes = body?.length ?? 0;
  // at the least rate, and never shorter than the wait for an answer
  return (
    answerMsOf(timeouts, bytes) + Math.min((bytes / timeouts.minBytesPerSecond) * 1_000, 21_600_000)
  );
}

/** Short stretches are read into memory, where they are seen; the platform streams the others. */
async function contentOf({ pieces }: Outgoing): Promise<Blob> {
  const parts: (Uint8Array<ArrayBuffer> | Blob)[] = [];
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) {
      parts.push(piece);
      continue;
    }
    const { file, start, end, seen } = piece;
    if (end - start > stepBytes && file.blob) {
      parts.push(file.blob(start, end));
      continue;
    }
    let at = start;
    for await (const chunk of file.chunks(start, end)) {
      seen?.(chunk, at);
      at += chunk.length;
      parts.push(chunk.slice());
    }
  }
  return new Blob(parts);
}

async function readJson(response: Response): Promise<unknown> {
  const text = createAnswerText(response.headers.get("content-type"));
  const reader = response.body?.getReader();
  try {
    for (;;) {
      const step = await reader?.read();
      if (!step || step.done) return text.json();
      if (!text.add(step.value)) return undefined;
    }
  } catch {
    // an answer that breaks off is known by its status all the same
    return undefined;
  } finally {
    reader?.cancel().catch(() => {});
  }
}
