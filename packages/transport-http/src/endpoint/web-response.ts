import { definedMembers, type LooseRequest, type RpcId } from "@sluice/core/internal";
import {
  ensurePromisedBytes,
  type Reply,
  type ReplyTransfer,
  type RpcFault,
} from "@sluice/server/internal";

/** What a layer answers: a web response, or the reply that {@link toResponse} would make one of. */
export type LayerAnswer = Response | Reply;

/** True for a response that is not a web response yet. */
export function isReply(answer: LayerAnswer): answer is Reply {
  return Array.isArray(answer.headers);
}

class ReplyResponse extends Response {
  readonly reply: Reply;

  constructor(reply: Reply, headers: Headers) {
    const { status, text, transfer } = reply;
    super(transfer ? bodyOf(transfer) : (text ?? null), { status, headers });
    this.reply = reply;
  }
}

/**
 * A reply as a web response. The source is not touched before the body is read; adapters that can
 * do better take the reply itself with {@link replyOf} and leave the response's body alone.
 */
export function toResponse(reply: Reply): Response {
  const { headers } = reply;
  const fields = new Headers();
  for (let at = 0; at < headers.length; at += 2) fields.append(headers[at]!, headers[at + 1]!);
  return new ReplyResponse(reply, fields);
}

/** The reply that a response was made of, if it was. */
export function replyOf(response: Response): Reply | undefined {
  return response instanceof ReplyResponse ? response.reply : undefined;
}

/** The bytes as a stream that counts them and fails when there are too few or too many. */
function bodyOf(transfer: ReplyTransfer): ReadableStream<Uint8Array> {
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  let sentBytes = 0;
  const { promisedBytes } = transfer;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        reader ??= transfer.source.body.getReader();
        try {
          const { done, value } = await reader.read();
          const receivedBytes = sentBytes + (value?.byteLength ?? 0);
          ensurePromisedBytes(receivedBytes, promisedBytes, { hasEnded: done });
          if (value) controller.enqueue(value);
          sentBytes = receivedBytes;
          if (!done) return;
        } catch (error) {
          reader.cancel(error).catch(() => {});
          transfer.end({ outcome: "failed", bytes: sentBytes, error });
          throw error;
        }
        transfer.end({ outcome: "complete", bytes: sentBytes });
        controller.close();
      },
      async cancel(reason) {
        transfer.end({ outcome: "aborted", bytes: sentBytes });
        await (reader ?? transfer.source.body).cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

interface ErrorResponseOptions {
  /** Id of the request; `null` where it was not read. Default: `null`. */
  readonly id?: RpcId | null | undefined;
  readonly headers?: Record<string, string>;
}

/** An HTTP response that is a JSON-RPC error. */
export function errorResponse(
  status: number,
  error: { readonly code: number; readonly message: string; readonly data?: unknown },
  { id = null, headers = {} }: ErrorResponseOptions = {},
): Response {
  return Response.json({ jsonrpc: "2.0", id, error }, { status, headers });
}

/** The response of a Sluice that refuses a call. `session` are the headers of {@link sessionHeaderOf}. */
export function faultResponse(
  { status, code, message, data, challenge }: RpcFault,
  { id }: LooseRequest,
  session: Record<string, string> = {},
): Response {
  const headers = definedMembers({
    "cache-control": "no-store",
    ...session,
    "www-authenticate": challenge,
  });
  return errorResponse(status, { code, message, data }, { id, headers });
}

/** The headers by which a response names its session. */
export function sessionHeaderOf({ headers }: Response): Record<string, string> {
  const id = headers.get("mcp-session-id");
  return id === null ? {} : { "mcp-session-id": id };
}
