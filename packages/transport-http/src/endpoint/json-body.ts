import {
  isJsonContentType,
  readRequestBody,
  type McpHandlerRequestOptions,
} from "@modelcontextprotocol/server";
import { readJson } from "@sluice/core/internal";
import type { Reply } from "@sluice/server/internal";
import { HttpExchange } from "./http-exchange.ts";
import { toResponse } from "./web-response.ts";

/** Largest JSON of a request that is taken, in bytes, where no option says otherwise: 4 MiB, as in the SDK. */
export const defaultMaxBodySize: number = 4 * 2 ** 20;

/** A request whose JSON was read, or the response to one that is refused. */
export type ReadRequest =
  | { readonly mcpOptions: McpHandlerRequestOptions | undefined; readonly refusal?: never }
  | { readonly refusal: Response; readonly mcpOptions?: never };

/**
 * Reads the JSON of a POST once for all layers: from here on it is `parsedBody` of the options. Leaves alone bodies that
 * were parsed in front, and requests other than a POST with JSON. The request stays readable. Rejects bodies larger than
 * `maxBytes` with 413; with 400 those that are not JSON, or nested deeper than 128 levels.
 */
export async function readJsonBody(
  request: Request,
  mcpOptions: McpHandlerRequestOptions | undefined,
  maxBytes: number,
): Promise<ReadRequest> {
  const isOurs =
    request.method === "POST" &&
    isJsonContentType(request.headers.get("content-type")) &&
    mcpOptions?.parsedBody === undefined &&
    !request.bodyUsed;
  if (!isOurs) return { mcpOptions };
  const read = await readText(request, maxBytes).catch(() => undefined);
  if (!read) return { refusal: toResponse(refuse(400, -32_700, unreadable)) };
  if (read.tooLarge) return { refusal: toResponse(tooLarge(maxBytes)) };
  // JSON other than JSON-RPC, and batches of old clients, are left to the SDK
  const { value, fault } = readJson(read.text);
  if (fault) return { refusal: toResponse(refuse(400, fault.code, fault.message)) };
  return { mcpOptions: { ...mcpOptions, parsedBody: value } };
}

/** The text of a body. The request keeps it, for handlers that do not look at `parsedBody`. */
async function readText(request: Request, maxBytes: number): ReturnType<typeof readRequestBody> {
  const exchange = HttpExchange.of(request);
  const { body } = exchange;
  // a copy has a body of its own
  if (body && request === exchange.request) {
    exchange.body = undefined;
    return body.length > maxBytes
      ? { tooLarge: true }
      : { tooLarge: false, text: decoder.decode(body) };
  }
  const copy = request.clone();
  const read = await readRequestBody(copy, maxBytes);
  // both branches of the clone would keep the rest
  if (read.tooLarge)
    await Promise.all([copy.body?.cancel(), request.body?.cancel()]).catch(() => {});
  return read;
}

const decoder = new TextDecoder();
const unreadable = "Parse error: the request body could not be read";

/** The response to a request with more JSON than is taken. */
export function tooLarge(maxBytes: number): Reply {
  const message = `Payload Too Large: a request has at most ${maxBytes} bytes of JSON here; the server's option maxRequestBodySize raises that`;
  return refuse(413, -32_000, message);
}

function refuse(status: 400 | 413, code: number, message: string): Reply {
  const text = JSON.stringify({ jsonrpc: "2.0", id: null, error: { code, message } });
  const length = String(text.length);
  return {
    status,
    headers: ["Content-Type", "application/json", "Content-Length", length],
    text,
  };
}
