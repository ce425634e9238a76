import type { AuthInfo } from "@modelcontextprotocol/server";
import type { PlainRequest, RequestBody } from "../endpoint/plain-route.ts";
import { Connection } from "./connection.ts";
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
    this.signal = Connection.of(req.socket).signalOf(req.socket);
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
