import { SluiceError, type RpcCall, type RpcMessage } from "@sluice/core";
import { errorTable } from "@sluice/core/wire";
import {
  type BinaryPeer,
  eventsIn,
  inlineMessage,
  isAnswerTo,
  writeMessage,
} from "@sluice/binary-transfer/transport";
import { shieldHeaders, type Reply } from "@sluice/server/transport";
import { firstMessage } from "./multipart-events.ts";
import { toResponse } from "../endpoint/web-response.ts";

/** An exchange whose answer may have bytes beside it. */
export interface Answering {
  readonly call: RpcCall;
  readonly peer: BinaryPeer;
  /** Most bytes that go into an event as base64. */
  readonly maxBase64Bytes: number;
  /** Called once the answer is through or is not taken. */
  readonly done: () => void;
}

/**
 * The answer of the SDK with what it refers to: as several parts where its result comes first, inside the JSON where
 * events went out before it.
 */
export async function answerWithBytes(inner: Response, answering: Answering): Promise<Response> {
  const { call, peer, maxBase64Bytes, done } = answering;
  const { body, headers, ok } = inner;
  const type = headers.get("content-type") ?? "";
  const isAnswer = (message: object): boolean => isAnswerTo(message, call);
  if (ok && body && type.startsWith("application/json")) {
    const message: unknown = await inner.json();
    if (typeof message === "object" && message !== null) return whole(message, inner, answering);
  }
  if (ok && body && type.startsWith("text/event-stream")) {
    const { message, rest } = await firstMessage(eventsIn(body), {
      isWanted: isAnswer,
      rewrite: async ({ raw, message: later }) =>
        later && isAnswer(later) ? withText(raw, await inlined(peer, later, maxBase64Bytes)) : raw,
      onEnd: done,
    });
    return message ? whole(message, inner, answering) : new Response(rest, { headers });
  }
  done();
  return inner;
}

/** The whole answer: JSON, or JSON and its bytes. */
function whole(
  message: object,
  { status, headers }: Response,
  { peer, done }: Answering,
): Response {
  const sending = peer.sending(message);
  if (sending.streams.length === 0) {
    done();
    const fields = [...without(headers, described), ["content-type", "application/json"]];
    return new Response(sending.text, { status, headers: fields as [string, string][] });
  }
  const written = writeMessage(sending);
  const { contentType, contentLength, body } = written;
  const reply: Reply = {
    status,
    headers: [
      ...without(headers, shielded).flat(),
      "Content-Type",
      contentType,
      "Content-Length",
      String(contentLength),
      ...shieldHeaders,
    ],
    transfer: {
      source: { body },
      bytes: contentLength,
      end(result) {
        written.end(result);
        done();
      },
    },
  };
  return toResponse(reply);
}

/** An answer that has to stay JSON. */
async function inlined(peer: BinaryPeer, message: RpcMessage, maxBytes: number): Promise<string> {
  try {
    return await inlineMessage(peer.sending(message), maxBytes);
  } catch (error) {
    const reason = SluiceError.is(error) && error.code === "too_large" ? error.code : "internal";
    const row = errorTable.find((each) => each.reason === reason)!;
    const fault = { code: row.legacy, message: row.message, data: { reason } };
    return JSON.stringify({ jsonrpc: "2.0", id: message.id, error: fault });
  }
}

/** An event with other data. */
function withText(raw: string, text: string): string {
  const fields = raw.split(/\r\n|\n|\r/).filter((line) => line !== "" && !line.startsWith("data:"));
  return `${[...fields, `data: ${text}`].join("\n")}\n\n`;
}

/** Headers that say something of the body that is replaced. */
const described = new Set([
  "content-type",
  "content-length",
  "content-encoding",
  "transfer-encoding",
]);
const shielded = new Set([
  ...described,
  ...shieldHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase()),
]);

function without(headers: Headers, names: ReadonlySet<string>): [string, string][] {
  return [...headers].filter(([name]) => !names.has(name));
}
