import type { AuthInfo } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { onAbort } from "@sluice/core/internal";
import type { HttpExchange } from "./http-exchange.ts";
import type { PlainRequest, RequestBody } from "./plain-route.ts";

/** Reads headers; a request made by hand has no `Host`, and its URL says the same. */
export function headerReader(request: Request): (name: string) => string | undefined {
  return (name) =>
    request.headers.get(name) ?? (name === "host" ? new URL(request.url).host : undefined);
}

/** The target of a web request: the part of its URL after the authority. */
export function targetOf({ url }: Pick<Request, "url">): string {
  const authority = url.indexOf("//") + 2;
  const end = url.slice(authority).search(/[/?#]/);
  if (end < 0) return "/";
  const target = url.slice(authority + end);
  return target.startsWith("/") ? target : `/${target}`;
}

/** What a router looks at. */
export function factsOf(request: Request): Pick<PlainRequest, "method" | "target" | "header"> {
  return { method: request.method, target: targetOf(request), header: headerReader(request) };
}

/** A web request as plain values. */
export function plainOf(
  request: Request,
  authInfo: AuthInfo | undefined,
  { address }: HttpExchange,
): PlainRequest {
  return {
    ...factsOf(request),
    address,
    authInfo,
    signal: request.signal,
    body: request.body ? bodyOf(request.body) : undefined,
  };
}

function bodyOf(body: ReadableStream<Uint8Array>): RequestBody {
  return {
    async read(take, signal) {
      const reader = body.getReader();
      const stop = (): void => void reader.cancel(signal.reason).catch(() => {});
      const unlisten = onAbort(signal, stop);
      try {
        for (;;) {
          const { done, value } = await reader.read().catch(rethrowInterrupted);
          signal.throwIfAborted();
          if (done) return;
          const wait = take(value);
          if (wait) await wait;
        }
      } catch (error) {
        reader.cancel(error).catch(() => {});
        signal.throwIfAborted();
        throw error;
      } finally {
        unlisten();
      }
    },
  };
}

function rethrowInterrupted(cause: unknown): never {
  throw new SluiceError("interrupted", "http: the body ended before its end", { cause });
}
