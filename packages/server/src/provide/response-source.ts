import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { definedMembers, parseContentRange, parseRetryAfter } from "@sluice/core/internal";
import type { ProvidedResponse } from "./provider.ts";
import { streamSource, type ProvidedSource, type SourceTerms } from "./stream-source.ts";

/** The body of a response of another HTTP server. Throws for a response without success, and ends its body. */
export function responseSource(response: ProvidedResponse, terms: SourceTerms): ProvidedSource {
  const { operation } = terms;
  try {
    if (!response.ok) throw refusal(response, operation);
    const extent = readExtent(response, operation);
    const contentType = response.headers.get("content-type") ?? undefined;
    return { ...bodySource(response, terms), ...extent, ...definedMembers({ contentType }) };
  } catch (error) {
    discardResponse(response, error);
    throw error;
  }
}

function discardResponse({ body }: ProvidedResponse, reason: unknown): void {
  if (body && !body.locked) body.cancel(reason).catch(() => {});
}

function bodySource({ body, url }: ProvidedResponse, terms: SourceTerms): ProvidedSource {
  if (!body) return { next: async () => undefined, release() {} };
  // one that the provider made itself has no connection
  if (url === "") return streamSource(body, terms);
  const { next, release } = streamSource(body, terms, "hand-over");
  return {
    async next() {
      try {
        return await next();
      } catch (cause) {
        throw new SluiceError(
          "interrupted",
          `${terms.operation}: the connection to the other server broke`,
          { cause },
        );
      }
    },
    release,
  };
}

/** Where the bytes lie in the whole, and how long that is. */
function readExtent(
  { status, url, headers, body }: ProvidedResponse,
  operation: string,
): Pick<ProvidedSource, "start" | "size" | "needsSize"> {
  if (status === 206) {
    const { range, size } = parseContentRange(headers.get("content-range")) ?? {};
    if (!range || (size !== undefined && range.end !== size))
      throw new SluiceError(
        "corrupt",
        `${operation}: the other server sent a part that does not go to the end`,
      );
    return { start: range.start, ...definedMembers({ size }) };
  }
  const length = headers.get("content-length");
  // what fetch decodes on the way has another length
  const isSize = length !== null && /^\d{1,15}$/.test(length) && !headers.get("content-encoding");
  const isFramed = length !== null || headers.get("transfer-encoding") !== null;
  return {
    start: 0,
    ...definedMembers({ size: isSize ? Number(length) : undefined }),
    needsSize: body !== null && url !== "" && !isFramed,
  };
}

/** A response without success. 401 and 403 are about the credentials of this server. */
function refusal({ status, headers }: ProvidedResponse, operation: string): SluiceError {
  const retryAfterMs = parseRetryAfter(headers.get("retry-after"), Date.now());
  return new SluiceError(
    codes.get(status) ?? "unavailable",
    `${operation}: the other server answered HTTP ${status}`,
    definedMembers({ retryAfterMs }),
  );
}

const codes: ReadonlyMap<number, SluiceErrorCode> = new Map([
  [404, "not_found"],
  [410, "not_found"],
  [429, "throttled"],
]);
