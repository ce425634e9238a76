import { readRpc, type RpcMessage } from "@sluice/core";

/** One event of a stream of server-sent events. */
export interface ServerEvent {
  /** As it came, with the empty line that ends it. */
  readonly raw: string;
  /** The JSON-RPC message in its data; absent in comments and everything else. */
  readonly message?: RpcMessage;
}

/** The events of a body, one after the other. What comes after the last empty line is an event without an end. */
export async function* eventsIn(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<ServerEvent, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** What has come of an event, in pieces: a long one is joined once. */
  let pieces: string[] = [];
  let tail = "";
  try {
    for (let step = await reader.read(); !step.done; step = await reader.read()) {
      let text = decoder.decode(step.value, { stream: true });
      for (;;) {
        const [, begin = "", rest] = splitAtEnd(tail, text) ?? [];
        if (rest === undefined) break;
        yield eventOf([...pieces, begin].join(""));
        pieces = [];
        tail = "";
        text = rest;
      }
      pieces.push(text);
      tail = (tail + text).slice(-3);
    }
    const rest = pieces.join("");
    if (rest !== "") yield eventOf(rest);
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Cuts `text` behind the first empty line, which may begin in what came before it. */
function splitAtEnd(tail: string, text: string): [string, string, string] | undefined {
  const end = /(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n|$))/.exec(tail + text);
  if (!end) return undefined;
  const at = end.index + end[0].length - tail.length;
  return [tail, text.slice(0, at), text.slice(at)];
}

function eventOf(raw: string): ServerEvent {
  const data = raw
    .split(/\r\n|\n|\r/)
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice("data:".length).replace(/^ /, ""))
    .join("\n");
  const { message } = readRpc(data);
  return message ? { raw, message } : { raw };
}
