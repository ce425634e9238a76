import type { RpcMessage } from "@sluice/core";
import { eventsIn, isAnswerTo } from "@sluice/binary-transfer/transport";

/**
 * The JSON-RPC response to the request `id` in a stream of server-sent events; `undefined` when
 * the stream ends without one. The rest of the stream is cancelled.
 */
export async function answerIn(
  body: ReadableStream<Uint8Array>,
  id: string | number,
): Promise<RpcMessage | undefined> {
  for await (const { message } of eventsIn(body)) if (isAnswerTo(message, { id })) return message;
  return undefined;
}
