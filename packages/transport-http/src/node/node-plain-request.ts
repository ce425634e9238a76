import { setMaxListeners } from "node:events";
import type { Socket } from "node:net";
import type { AuthInfo } from "@modelcontextprotocol/server";
import type { PlainRequest, RequestBody } from "../endpoint/plain-route.ts";
import { nodeBody } from "./node-body.ts";
import type { NodeRequest } from "./node-request.ts";

/** A request of `node:http` as plain values. A class: an object with a getter of its own for each request would be slow. */
export class NodePlainRequest implements PlainRequest {
  readonly method: string;
  /** Names come from us, never from the request; lists are joined by Node already. */
  readonly header: (name: string) => string | undefined;
  readonly target: string;
  readonly address: string | undefined;
  readonly signal: AbortSignal;
  readonly body: RequestBody | undefined;
  readonly #req: NodeRequest;

  constructor(req: NodeRequest, { target, address }: Pick<PlainRequest, "target" | "address">) {
    this.method = req.method ?? "GET";
    this.target = target;
    this.address = address;
    this.signal = connectionSignal(req.socket);
    this.body = nodeBody(req);
    this.header = (name) => {
      const value = req.headers[name];
      return typeof value === "string" ? value : undefined;
    };
    this.#req = req;
  }

  /** What authenticates may put it there later. */
  get authInfo(): AuthInfo | undefined {
    return this.#req.auth;
  }
}

const connections = new WeakMap<Socket, AbortSignal>();

/**
 * Aborts when the connection closes. One for all requests of a connection: what one of its
 * own costs is more than the rest of answering a small download.
 */
function connectionSignal(socket: Socket): AbortSignal {
  let signal = connections.get(socket);
  if (!signal) {
    const gone = new AbortController();
    socket.once("close", () => gone.abort());
    ({ signal } = gone);
    // as many as there are pipelined requests
    setMaxListeners(0, signal);
    connections.set(socket, signal);
  }
  return signal;
}
