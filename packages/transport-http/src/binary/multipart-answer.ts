import { SluiceError } from "@sluice/core";
import {
  errorTable,
  eventsIn,
  isEventStream,
  pullStream,
  type RpcCall,
  type RpcEvent,
  type RpcMessage,
} from "@sluice/core/internal";
import {
  type BinaryPeer,
  inlineMessage,
  isAnswerTo,
  writeMessage,
} from "@sluice/binary-transfer/internal";
import { shieldHeaders, type Reply } from "@sluice/server/internal";
import { toResponse } from "../endpoint/web-response.ts";

/** An exchange whose answer may have bytes beside it. */
export interface Answering {
  readonly call: RpcCall;
  readonly peer: BinaryPeer;
  /** Maximum bytes that go into an event as base64. */
  readonly maxBase64Bytes: number;
  /** Called once the response is through or is not taken. */
  readonly done: () => void;
}

/**
 * The response of the SDK with what it refers to: as several parts where its result comes first, inside the JSON where
 * events went out before it.
 */
export async function answerWithBytes(inner: Response, answering: Answering): Promise<Response> {
  const { body, headers, ok } = inner;
  if (ok && body && isEventStream(headers)) return answerWithEvents(inner, body, answering);
  if (ok && body && headers.get("content-type")?.startsWith("application/json")) {
    const message: unknown = await inner.json();
    if (typeof message === "object" && message !== null) return whole(message, inner, answering);
  }
  answering.done();
  return inner;
}

/** The whole response where it is the first message; else the events, with the bytes of the response inside its JSON. */
async function answerWithEvents(
  inner: Response,
  body: ReadableStream<Uint8Array>,
  answering: Answering,
): Promise<Response> {
  const { call, peer, maxBase64Bytes, done } = answering;
  const events = eventsIn(body, { operation: "http" });
  const passed: RpcEvent[] = [];
  for (let step = await events.next(); !step.done; step = await events.next()) {
    const { message } = step.value;
    if (message && isAnswerTo(message, call)) {
      await events.return();
      return whole(message, inner, answering);
    }
    passed.push(step.value);
    if (message) break;
  }

  async function next(): Promise<Uint8Array | undefined> {
    const event = passed.shift() ?? (await events.next()).value;
    if (!event) return undefined;
    const { raw, message } = event;
    const isAnswer = message && isAnswerTo(message, call);
    const text = isAnswer ? withText(raw, await inlined(peer, message, maxBase64Bytes)) : raw;
    return new TextEncoder().encode(text);
  }

  const rest = pullStream(next, () => {
    done();
    return events.return();
  });
  return new Response(rest, { headers: inner.headers });
}

/** The whole response: JSON, or JSON and its bytes. */
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
      promisedBytes: contentLength,
      end(result) {
        written.end(result);
        done();
      },
    },
  };
  return toResponse(reply);
}

/** A response that has to stay JSON. */
async function inlined(peer: BinaryPeer, message: RpcMessage, maxBytes: number): Promise<string> {
  try {
    return await inlineMessage(peer.sending(message), maxBytes);
  } catch (error) {
    const reason = SluiceError.is(error) && error.code === "too_large" ? error.code : "internal";
    const row = errorTable[reason];
    const fault = { code: row.legacy, message: row.message, data: { reason } };
    return JSON.stringify({ jsonrpc: "2.0", id: message.id, error: fault });
  }
}

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
