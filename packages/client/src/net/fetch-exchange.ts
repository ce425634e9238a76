import { type FetchLike, SluiceError, tlsFault } from "@sluice/core";
import type { ByteFlow, Exchange, HopAnswer } from "./exchange.ts";

/** An exchange over a web `fetch`. Runtimes that hide redirects get `unsupported` instead of one. */
export function createFetchExchange(fetch: FetchLike): Exchange {
  return async ({ method, url, headers, body, signal }) => {
    let response: Response;
    try {
      response = await fetch(url, {
        method,
        headers: { ...headers },
        ...(body !== undefined && { body }),
        redirect: "manual",
        credentials: "omit",
        referrerPolicy: "no-referrer",
        signal,
      });
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      throw (
        tlsFault("client", url, error) ??
        new SluiceError("unavailable", `client: ${url.origin} could not be reached`, {
          cause: error,
        })
      );
    }
    if (response.type === "opaqueredirect")
      throw new SluiceError(
        "unsupported",
        "client: the server redirected, which this runtime hides; ask for downloadUrl delivery",
      );
    const { status } = response;
    return {
      status,
      headers: response.headers,
      framing: framingOf(response.headers),
      decodes: true,
      body: flowOf(response.body, signal),
    };
  };
}

function framingOf(headers: Headers): HopAnswer["framing"] {
  if (headers.has("content-length")) return "length";
  // some platforms take a cut of such a connection for the end, also within a chunked body
  if (/(?:^|,)\s*close\s*(?:,|$)/i.test(headers.get("connection") ?? "")) return "close";
  return headers.has("transfer-encoding") ? "chunked" : "unknown";
}

function flowOf(body: ReadableStream<Uint8Array> | null, signal: AbortSignal): ByteFlow {
  const reader = body?.getReader();
  return {
    async pump(take) {
      try {
        for (;;) {
          const step = await reader?.read().catch((error: unknown) => {
            if (signal.aborted) throw signal.reason;
            throw new SluiceError("interrupted", "client: the connection broke", { cause: error });
          });
          if (!step || step.done) return;
          await take(step.value);
        }
      } catch (error) {
        reader?.cancel(error).catch(() => {});
        throw error;
      }
    },
    cancel(reason) {
      reader?.cancel(reason).catch(() => {});
    },
  };
}
