import type { IncomingMessage } from "node:http";
import { eventsOf, messageIn } from "./events.ts";
import { ask, bytesOf, typeOf, type Reply } from "./http.ts";
import { greeting, must, requestOf, type Json, type Message, type Revision } from "./message.ts";

/** Answers a request of the server to its client. */
export type Answering = (method: string, params: Json) => Promise<Json>;

/** A client that is connected: what the seeds' peers ask of any transport. */
export interface Peer extends AsyncDisposable {
  readonly revision: Revision;
  /** What the server declared. */
  readonly capabilities: Json;
  /** The header fields that prove this client to the server beside the channel. */
  readonly credentials: Record<string, string>;
  /** Sends a request and gives its answer; `answering` gets what the server asks meanwhile. */
  call(method: string, params: Json, answering?: Answering): Promise<Message>;
}

/** A client on Streamable HTTP. */
export interface HttpPeer extends Peer {
  readonly endpoint: URL;
  /** Sends a request and gives the HTTP answer as it is, with the id of the request. */
  post(method: string, params: Json, accept: string): Promise<Reply & { readonly id: number }>;
  /** The header fields of every request of this session. */
  readonly headers: Record<string, string>;
}

/** What a literal client says of itself. */
export interface Connecting {
  readonly revision: Revision;
  readonly capabilities: Json;
  readonly token?: string | undefined;
}

const bothTypes = "application/json, text/event-stream";

/** Connects as the base specification says: no word of any seed is in here. */
export async function connectHttp(
  url: string,
  { revision, capabilities, token }: Connecting,
): Promise<HttpPeer> {
  const endpoint = new URL(url);
  const bearer: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  let headers = bearer;
  let lastId = 0;

  const send = async (message: Message, accept: string): Promise<Reply> => {
    const stateless = revision === "2026-07-28" && message.method !== undefined;
    const named = message.params?.["uri"] ?? message.params?.["name"];
    const mirrored: Record<string, string> = stateless ? { "mcp-method": message.method } : {};
    if (stateless && typeof named === "string") mirrored["mcp-name"] = named;
    const fields = { "content-type": "application/json", accept, ...headers, ...mirrored };
    return ask("POST", endpoint, fields, JSON.stringify(message));
  };
  const post: HttpPeer["post"] = async (method, params, accept) => {
    const id = ++lastId;
    const reply = await send(requestOf(revision, id, method, params, capabilities), accept);
    return { ...reply, id };
  };
  const respond = async (message: Message): Promise<void> => {
    const { status, body } = await send(message, bothTypes);
    body.resume();
    must(status === 202 || status === 204, `a response or notification is accepted, not ${status}`);
  };
  const call = async (method: string, params: Json, answering?: Answering): Promise<Message> => {
    const reply = await post(method, params, bothTypes);
    for await (const message of messagesOf(reply)) {
      if (message.method !== undefined && message.id !== undefined) {
        must(answering !== undefined, `the server asked ${message.method} of a client that cannot`);
        const result = await answering(message.method, message.params ?? {});
        await respond({ jsonrpc: "2.0", id: message.id, result });
      } else if (message.method === undefined) {
        reply.body.resume();
        return message;
      }
    }
    throw new Error(`${method}: the answer ended without a message (HTTP ${reply.status})`);
  };

  if (revision === "2026-07-28") headers = { ...bearer, "mcp-protocol-version": revision };
  const first = greeting(revision, capabilities);
  const hello = await post(first.method, first.params, bothTypes);
  const { value: answer } = await messagesOf(hello).next();
  hello.body.resume();
  must(answer?.result !== undefined, `the server greets its client: ${JSON.stringify(answer)}`);
  const session = hello.headers["mcp-session-id"] as string | undefined;
  if (revision === "2025-11-25") {
    headers = { ...bearer, "mcp-protocol-version": revision };
    if (session) headers["mcp-session-id"] = session;
    await respond({ jsonrpc: "2.0", method: "notifications/initialized" });
  }
  // a client that has no token has its session alone
  const credentials = token || !session ? bearer : { "mcp-session-id": session };
  return {
    revision,
    endpoint,
    credentials,
    headers,
    capabilities: answer.result["capabilities"] as Json,
    post,
    call,
    async [Symbol.asyncDispose]() {
      if (session) (await ask("DELETE", endpoint, headers)).body.resume();
    },
  };
}

/** The messages of an answer: one of JSON, or those of its events. */
export async function* messagesOf(reply: {
  readonly headers: Reply["headers"];
  readonly body: IncomingMessage;
}): AsyncGenerator<Message> {
  if (typeOf(reply.headers) === "text/event-stream") {
    for await (const event of eventsOf(reply.body)) {
      const message = messageIn(event);
      if (message) yield message;
    }
    return;
  }
  const text = (await bytesOf(reply.body)).toString();
  if (text !== "") yield JSON.parse(text) as Message;
}
