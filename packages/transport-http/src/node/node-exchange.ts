import type { IncomingMessage, ServerResponse } from "node:http";

/** A request of `node:http` and its response: what the parts of a server, between which others stand, leave for one another. */
export class NodeExchange {
  /** Leaves the pace of the body to its reader. May be called more than once. */
  liftBodyDeadline: (() => void) | undefined = undefined;
  /** The client still waits for `100 Continue`. */
  awaitsContinue = false;
  /** The header that leads to its web request is ours, and not the client's. */
  isShared = false;
  /** The way to the network, past what the writers of a captured response see. */
  wire: ServerResponse | undefined = undefined;
  /** Its server drains. */
  isDraining = false;
  #onDrain: (() => void) | undefined;

  static of(req: IncomingMessage): NodeExchange {
    let exchange = exchanges.get(req);
    if (!exchange) exchanges.set(req, (exchange = new NodeExchange()));
    return exchange;
  }

  /** That of a request of which there is something to know. */
  static find(req: IncomingMessage): NodeExchange | undefined {
    return exchanges.get(req);
  }

  /** Has a response that would never end by itself ended by `end` when its server drains. */
  endOnDrain(end: () => void): void {
    // what it has to say at once is an id to come back with
    if (this.isDraining) setImmediate(end);
    else this.#onDrain = end;
  }

  /** Tells a response, also one that has not begun, that its server drains. */
  drain(): void {
    this.isDraining = true;
    this.#onDrain?.();
  }
}

const exchanges = new WeakMap<IncomingMessage, NodeExchange>();
