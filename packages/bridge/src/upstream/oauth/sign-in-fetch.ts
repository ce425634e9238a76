import { SluiceError, type FetchLike } from "@sluice/core";

/** The calls of one sign-in, to the server and its authorization server. */
export interface SignInCalls {
  readonly fetch: FetchLike;
  /** Throws `unavailable` where tokens could not be refreshed now and may be later: there is no reason to sign in again. */
  ensureRefreshed(): void;
}

/** Calls that wait at most 30 s and read at most 1 MiB of each answer. */
export function signInFetch(fetch: FetchLike, signal: AbortSignal): SignInCalls {
  let fault: string | undefined;
  return {
    async fetch(input, init = {}) {
      const { body } = init;
      const isRefresh =
        body instanceof URLSearchParams && body.get("grant_type") === "refresh_token";
      const ends = [signal, AbortSignal.timeout(answerMs), init.signal].filter((each) => !!each);
      try {
        const response = await fetch(input, { ...init, signal: AbortSignal.any(ends) });
        if (isRefresh && passing.has(response.status)) fault = `HTTP ${response.status}`;
        return await whole(response);
      } catch (error) {
        signal.throwIfAborted();
        if (isRefresh) fault = "it does not answer";
        throw error;
      }
    },
    ensureRefreshed() {
      if (fault === undefined) return;
      throw new SluiceError(
        "unavailable",
        `bridge: the sign-in could not be refreshed (${fault}): call again later`,
      );
    },
  };
}

const answerMs = 30_000;
const mostBytes = 2 ** 20;
/** Statuses that say nothing of the refresh token. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** The SDK reads the errors of an authorization server from responses of the platform's own class only. */
async function whole({ status, statusText, headers, body }: Response): Promise<Response> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > mostBytes)
      throw new SluiceError("too_large", "bridge: an answer to a sign-in is larger than 1 MiB");
    chunks.push(chunk);
  }
  const text = isBodiless(status) ? null : Buffer.concat(chunks);
  return new Response(text, { status, statusText, headers: [...headers] });
}

function isBodiless(status: number): boolean {
  return status === 204 || status === 205 || status === 304;
}
