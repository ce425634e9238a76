import { SluiceError } from "@sluice/core";
import {
  contentCodings,
  definedMembers,
  fileNameFromUri,
  httpError,
  onAbort,
  parseContentDisposition,
  parseMediaType,
} from "@sluice/core/internal";
import { transferTimeouts } from "../download/stream-options.ts";
import type { HopExchange, HopAnswer } from "../net/exchange.ts";
import { hopHeaders } from "../net/request-headers.ts";
import { isRedirect, retryAfterOf } from "../net/http-status.ts";
import { unanswered, withDeadline } from "../net/timeouts.ts";
import {
  acceptUrl,
  ensureTrustedOrigins,
  isLoopbackHttp,
  publicHttps,
  type AcceptedUrl,
  type UrlPolicy,
} from "../trust/accept-url.ts";

/** Options of {@link OpenForeignFile}. */
export interface ForeignFileOptions {
  /**
   * Origins to accept besides those of the public internet, such as `http://127.0.0.1:8080` or one of an internal
   * storage. Default: none.
   */
  readonly trustedOrigins?: readonly string[];
  /** Ends the request, also while the bytes come. */
  readonly signal: AbortSignal;
}

/** A file whose URL a third party named. Read it or cancel it. */
export interface ForeignFile {
  /** Bytes; absent if the server does not say. */
  readonly size?: number;
  /** `type/subtype`, as the server says. */
  readonly mimeType?: string;
  /** As the server or the URL says; untrusted. */
  readonly name?: string;
  /**
   * Gives each chunk to `take`, and waits for what that returns. Resolves at the end; rejects with `interrupted` when the
   * connection broke before it, with what `take` threw, or with `signal.reason`. Call it once.
   */
  read(take: (chunk: Uint8Array) => Promise<void> | undefined, signal: AbortSignal): Promise<void>;
  cancel(): void;
}

/**
 * Opens a file under a URL that a third party named, without credentials. Each hop is HTTPS on the standard port of a
 * public address, or of a trusted origin; at most 5 redirects. Rejects with `untrusted` for any other address, with the
 * error for its status, `protocol`, `timeout`, `unavailable`, or the abort's reason.
 */
export type OpenForeignFile = (url: string, options: ForeignFileOptions) => Promise<ForeignFile>;

const maxRedirects = 5;

/** Makes it over an exchange that holds connections to their scope. */
export function createOpenForeignFile(exchange: HopExchange): OpenForeignFile {
  return async (text, { trustedOrigins = [], signal }) => {
    ensureTrustedOrigins(trustedOrigins);
    let target = acceptForeign(text, trustedOrigins, undefined);
    for (let hopsLeft = maxRedirects; ; hopsLeft--) {
      const answer = await sendHop(exchange, target, signal);
      if (!isRedirect(answer.status)) return fileOf(answer, target.url);
      answer.body.cancel();
      if (hopsLeft === 0) throw new SluiceError("protocol", "client: too many redirects");
      const location = answer.headers.get("location") ?? "";
      target = acceptForeign(location, trustedOrigins, target.url);
    }
  };
}

/** No server has a standing of its own here: every URL is one that it could have been redirected to. */
function acceptForeign(
  text: string,
  trustedOrigins: readonly string[],
  base: URL | undefined,
): AcceptedUrl {
  // plain HTTP between loopback addresses is what an origin has to be trusted for
  const policy: UrlPolicy = {
    endpoint: trustedOrigins.map((origin) => new URL(origin)).find(isLoopbackHttp),
    trustedOrigins: [...trustedOrigins, publicHttps],
  };
  return acceptUrl(text, policy, { base, redirect: true });
}

function sendHop(
  exchange: HopExchange,
  { url, standing }: AcceptedUrl,
  signal: AbortSignal,
): Promise<HopAnswer> {
  const { headersMs, connectMs } = transferTimeouts;
  return withDeadline([signal], headersMs, unanswered, (either) =>
    exchange({
      method: "GET",
      url,
      headers: hopHeaders(url, { auth: "self", sessionBound: false }, undefined),
      signal: either,
      scope: standing === "public" ? "public" : "any",
      connectMs,
    }),
  );
}

function fileOf(answer: HopAnswer, url: URL): ForeignFile {
  const { headers, body } = answer;
  try {
    ensureWhole(answer);
    const length = headers.get("content-length");
    const [named] = parseContentDisposition(headers.get("content-disposition"))?.fileNames ?? [];
    return {
      ...definedMembers({
        size: length === null || answer.decodes ? undefined : sizeIn(length),
        mimeType: parseMediaType(headers.get("content-type"))?.essence,
        name: named ?? nameIn(url),
      }),
      async read(take, signal) {
        const stop = onAbort(signal, () => body.cancel(signal.reason));
        try {
          await body.pump((chunk) => take(chunk));
        } catch (error) {
          signal.throwIfAborted();
          throw error;
        } finally {
          stop();
        }
      },
      cancel: () => body.cancel(),
    };
  } catch (error) {
    body.cancel(error);
    throw error;
  }
}

function ensureWhole(answer: HopAnswer): void {
  const { status, headers, framing } = answer;
  if (status !== 200)
    throw httpError("GET of a file", status, { retryAfterMs: retryAfterOf(answer) });
  // a cut would look like the end
  if (framing === "close")
    throw new SluiceError("protocol", "client: the server does not tell where the bytes end");
  if (contentCodings(headers.get("content-encoding")).length > 0)
    throw new SluiceError("protocol", "client: the server sent the bytes compressed");
}

function sizeIn(length: string): number {
  const size = /^\d{1,16}$/.test(length) ? Number(length) : Number.NaN;
  if (Number.isSafeInteger(size)) return size;
  throw new SluiceError("protocol", "client: the server sent an invalid length");
}

function nameIn({ pathname }: URL): string | undefined {
  const name = fileNameFromUri(pathname) ?? "";
  return /\.[a-z0-9]{1,8}$/i.test(name) ? name : undefined;
}
