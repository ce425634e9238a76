import { SluiceError, type FetchLike } from "@sluice/core";
import { STREAM_METHOD } from "@sluice/core/internal";
import type { SeenExchange } from "../evidence.ts";

/** Bytes that one diagnosis may still download. */
export class ByteBudget {
  #left: number;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  get left(): number {
    return this.#left;
  }

  /** Throws `too_large` when there are no more. */
  take(bytes: number): void {
    this.#left -= bytes;
    if (this.#left < 0)
      throw new SluiceError("too_large", "doctor: the answers have more than 1 MiB");
  }
}

/** A `fetch` that writes down what it sees, follows no redirect, and reads no more than the budget. */
export function watchedFetch(
  fetch: FetchLike,
  exchanges: SeenExchange[],
  budget: ByteBudget,
): FetchLike {
  return async (input, init) => {
    const { body: text } = init ?? {};
    const rpcMethod = rpcMethodOf(text);
    const exchange: SeenExchange = {
      httpMethod: init?.method ?? "GET",
      rpcMethod,
      sent:
        rpcMethod === STREAM_METHOD && typeof text === "string"
          ? { headers: Object.fromEntries(new Headers(init?.headers)), body: text }
          : undefined,
      headers: new Headers(),
      text: "",
    };
    exchanges.push(exchange);
    const signal = init?.signal;
    let answer: Response;
    try {
      answer = await fetch(input, { ...init, redirect: "manual" });
    } catch (error) {
      if (!signal?.aborted) exchange.fault = error;
      throw error;
    }
    const { status, statusText } = answer;
    const startedAt = performance.now();
    // it may come of another package than the platform's own
    const headers = new Headers([...answer.headers]);
    exchange.status = status;
    exchange.headers = headers;
    if (!answer.body) return new Response(null, { status, statusText, headers });
    const body = watchedBody(answer.body, budget, (fault) => {
      // the budget is ours, and no fault of the server
      if (signal?.aborted || SluiceError.is(fault)) return;
      exchange.fault = fault;
      exchange.faultMs = performance.now() - startedAt;
    });
    if (status < 400 && isMessage(headers))
      return new Response(body, { status, statusText, headers });
    exchange.text = await readStart(body);
    if (status >= 400) exchange.rpcCode = rpcCodeOf(exchange.text);
    return new Response(isBodiless(status) ? null : exchange.text, { status, statusText, headers });
  };
}

function rpcMethodOf(body: unknown): string | undefined {
  if (typeof body !== "string") return undefined;
  return /"method":"([^"]{1,100})"/.exec(body)?.[1];
}

function rpcCodeOf(text: string): number | undefined {
  const codeMatch = /"code"\s*:\s*(-\d{1,9})/.exec(text);
  return codeMatch ? Number(codeMatch[1]) : undefined;
}

function isMessage(headers: Headers): boolean {
  return /^(?:application\/json|text\/event-stream)\b/i.test(headers.get("content-type") ?? "");
}

function isBodiless(status: number): boolean {
  return status === 204 || status === 205 || status === 304;
}

function watchedBody(
  source: ReadableStream<Uint8Array>,
  budget: ByteBudget,
  onFault: (fault: unknown) => void,
): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        budget.take(value.length);
        controller.enqueue(value);
      } catch (error) {
        onFault(error);
        controller.error(error);
        await reader.cancel(error).catch(() => {});
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** At most this much of a response that is not a message is looked at. */
const startBytes = 16_384;

async function readStart(body: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let text = "";
  try {
    while (text.length < startBytes) {
      const { done, value } = await reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
    }
  } catch {
    // what came is enough
  }
  await reader.cancel().catch(() => {});
  return text.slice(0, startBytes);
}
