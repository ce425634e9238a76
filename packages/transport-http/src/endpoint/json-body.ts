import {
  isJsonContentType,
  readRequestBody,
  type McpHandlerRequestOptions,
} from "@modelcontextprotocol/server";
import { readJson } from "@sluice/core/internal";
import type { Reply } from "@sluice/server/internal";
import { HttpExchange } from "./http-exchange.ts";
import { toResponse } from "./web-response.ts";

/** Largest JSON of a request that is taken, in bytes, where no option says otherwise: 256 KiB. */
export const defaultMaxBodySize: number = 256 * 1024;

/** A request whose JSON was read, or the answer to one that is refused. */
export type ReadRequest =
  | { readonly mcpOptions: McpHandlerRequestOptions | undefined; readonly refusal?: never }
  | { readonly refusal: Response; readonly mcpOptions?: never };

/**
 * Reads the JSON of a POST, once for all layers: it is `parsedBody` of the options from here on. A body that was parsed
 * in front, and what is no POST with JSON, stays as it is. The request stays readable. Refuses with
 * 413 what is larger than `maxBytes`, with 400 what is no JSON or is nested deeper than 128 levels.
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
  // the SDK answers what is no JSON-RPC, and the batches of old clients
  const { value, fault } = readJson(read.text);
  if (fault) return { refusal: toResponse(refuse(400, fault.code, fault.message)) };
  return { mcpOptions: { ...mcpOptions, parsedBody: value } };
}

/** The text of a body. The request keeps it: handlers that know nothing of a parsed body read it themselves. */
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

/** The answer to a request with more JSON than is taken. */
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
