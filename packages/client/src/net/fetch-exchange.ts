import { SluiceError, type FetchLike, type ByteFlow } from "@sluice/core";
import type { HopExchange, HopAnswer, HopRequest } from "./exchange.ts";
import type { OutgoingBody } from "./outgoing-body.ts";

/**
 * An exchange over a web `fetch`. Runtimes that hide redirects get `unsupported` instead of one.
 */
export function createFetchExchange(
  fetch: FetchLike,
  { explain, blobOf }: FetchExtras = {},
): HopExchange {
  return async (request) => {
    const { url, signal } = request;
    const response = await send(fetch, request, blobOf).catch((error: unknown) => {
      if (signal.aborted) throw signal.reason;
      throw SluiceError.is(error)
        ? error
        : (explain?.(request.url, error) ?? faultOf(request, error));
    });
    if (response.type === "opaqueredirect")
      throw new SluiceError(
        "unsupported",
        `client: ${url.origin} redirected, which this runtime hides; ask for downloadUrl delivery`,
      );
    const { status, headers } = response;
    return {
      status,
      headers,
      sentAll: true,
      framing: framingOf(headers),
      decodes: true,
      body: flowOf(response.body, signal),
    };
  };
}

/** The exchange over the platform's own `fetch`. */
export const fetchExchange: HopExchange = createFetchExchange((input, init) =>
  globalThis.fetch(input, init),
);

/** Parts that not every exchange needs, and so not every page loads. */
interface FetchExtras {
  /** The error of a failed request, if the platform tells more than that it failed. */
  readonly explain?: (url: URL, error: unknown) => SluiceError | undefined;
  /** A body for `fetch`; needed where files are sent. */
  readonly blobOf?: (body: OutgoingBody) => Promise<Blob>;
}

async function send(
  fetch: FetchLike,
  { method, url, headers, body, signal }: HopRequest,
  blobOf: FetchExtras["blobOf"],
): Promise<Response> {
  const content = typeof body === "object" ? await blobOf!(body) : (body ?? null);
  signal.throwIfAborted();
  return fetch(url, {
    method,
    headers: { ...headers },
    body: content,
    redirect: "manual",
    credentials: "omit",
    referrerPolicy: "no-referrer",
    signal,
  });
}

/** `fetch` does not tell whether the server got the request. */
function faultOf({ url, body }: HopRequest, cause: unknown): SluiceError {
  const code = typeof body === "object" ? "interrupted" : "unavailable";
  return new SluiceError(code, `client: ${url.origin} could not be reached`, { cause });
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
    async pump(write) {
      try {
        for (;;) {
          const step = await reader?.read().catch((error: unknown) => {
            if (signal.aborted) throw signal.reason;
            throw new SluiceError("interrupted", "client: the connection broke", { cause: error });
          });
          if (!step || step.done) return;
          await write(step.value);
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
