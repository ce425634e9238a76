import { eventsOf, messageIn } from "../base/events.ts";
import { ask, typeOf, type Reply } from "../base/http.ts";
import type { Answering, HttpPeer } from "../base/http-client.ts";
import { must, type Json, type Message } from "../base/message.ts";

/** What a call took. */
export interface Resumed {
  readonly message: Message;
  /** How often the client asked for the rest of a stream. */
  readonly resumptions: number;
  /** How often it was told to send what it had stored. */
  readonly turns: number;
}

/** `<url>; rel="stream"` of a Link header field (RFC 8288), on the server's own origin. */
function streamUrl(reply: Reply, endpoint: URL): URL | undefined {
  const found = /<([^>]*)>\s*;[^,]*\brel="?stream"?/.exec(String(reply.headers["link"] ?? ""));
  if (!found) return undefined;
  const url = new URL(found[1]!, endpoint);
  must(url.origin === endpoint.origin, "the rel=stream URL has the server's origin");
  return url;
}

/** Calls as the client's algorithm of SEP-1335 says. */
export async function callResuming(
  peer: HttpPeer,
  method: string,
  params: Json,
  answering: Answering,
): Promise<Resumed> {
  const accept = "application/json, text/event-stream";
  const first = await peer.post(method, params, accept);
  let reply: Reply = first;
  let stream = streamUrl(reply, peer.endpoint);
  let last: string | undefined;
  let retry = 0;
  let resumptions = 0;
  let turns = 0;
  const buffered: Message[] = [];
  const handled = new Set<unknown>();
  for (let connection = 0; connection < 200; connection++) {
    try {
      must(typeOf(reply.headers) === "text/event-stream", `events, not HTTP ${reply.status}`);
      for await (const event of eventsOf(reply.body)) {
        if (event.id !== undefined) last = event.id;
        if (event.retry !== undefined) retry = event.retry;
        const message = messageIn(event);
        if (message?.method !== undefined && message.id !== undefined && !handled.has(message.id)) {
          handled.add(message.id);
          const result = await answering(message.method, message.params ?? {});
          buffered.push({ jsonrpc: "2.0", id: message.id, result });
        } else if (message?.id === first.id && message.method === undefined) {
          return { message, resumptions, turns };
        }
      }
    } catch (fault) {
      if ((fault as NodeJS.ErrnoException).code !== "ECONNRESET") throw fault;
    }
    must(stream !== undefined, "a server that disconnects has sent a rel=stream URL");
    await new Promise((resolve) => setTimeout(resolve, retry));
    const fields: Record<string, string> = { ...peer.headers, accept: "text/event-stream" };
    if (last !== undefined) fields["last-event-id"] = last;
    reply = await ask("GET", stream, fields);
    resumptions++;
    if (reply.status === 204) {
      reply.body.resume();
      turns++;
      const json = { ...peer.headers, accept, "content-type": "application/json" };
      reply = await ask("POST", stream, json, JSON.stringify(buffered.splice(0)));
      must(reply.status === 200, `the posted answers give a new stream, not ${reply.status}`);
      last = undefined;
      const next = streamUrl(reply, peer.endpoint);
      must(next !== undefined, "the new stream has a rel=stream URL");
      stream = next;
    } else {
      must(reply.status === 200, `the rel=stream URL gives the rest, not ${reply.status}`);
      stream = streamUrl(reply, peer.endpoint) ?? stream;
    }
  }
  throw new Error("200 connections without a result");
}
