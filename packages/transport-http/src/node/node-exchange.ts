import type { IncomingMessage, ServerResponse } from "node:http";

/** What the parts of a server note about a request for one another, across the code between them. */
export class NodeExchange {
  /**
   * Cancels the deadline of the body: from now on its reader decides how slow it may be. May be called more than once.
   */
  liftBodyDeadline: (() => void) | undefined = undefined;
  /** The client still waits for `100 Continue`. */
  awaitsContinue = false;
  /** `SHARED_REQUEST_HEADER` was set by us, not by the client. */
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

  /** The exchange of a request, if one was made. */
  static find(req: IncomingMessage): NodeExchange | undefined {
    return exchanges.get(req);
  }

  /** Registers `end` to end an endless response when the server drains. */
  endOnDrain(end: () => void): void {
    // in the next turn, so that the event id to resume from is sent first
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
