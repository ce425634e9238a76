import type { PeerWatch } from "@sluice/core/async";
import { SluiceError } from "@sluice/core";
import type { WebSocket } from "ws";

/**
 * Sends messages, and watches how fast the peer takes them. A long text goes in fragments (RFC 6455 §5.4): that tells
 * a peer which takes a part of it from one that takes nothing.
 */
export class FrameSender {
  readonly #socket: WebSocket;
  readonly #watch: PeerWatch;
  /** Bytes of what the network has not taken, frame by frame. */
  readonly #pending: number[] = [];

  constructor(socket: WebSocket, watch: PeerWatch) {
    this.#socket = socket;
    this.#watch = watch;
  }

  /** Resolves when the network took it; rejects with `interrupted` when the connection is gone. */
  send(data: string | Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      const done = (cause?: Error | null): void => {
        if (!cause) resolve();
        else reject(new SluiceError("interrupted", "ws: send: the connection is gone", { cause }));
      };
      if (typeof data !== "string" || data.length <= fragmentBytes) {
        this.#begin(data.length);
        this.#socket.send(data, (cause) => {
          this.#taken();
          done(cause);
        });
        return;
      }
      const bytes = Buffer.from(data);
      for (let at = 0; at < bytes.length; at += fragmentBytes) {
        const fragment = bytes.subarray(at, at + fragmentBytes);
        const fin = at + fragmentBytes >= bytes.length;
        this.#begin(fragment.length);
        this.#socket.send(fragment, { binary: false, fin }, (cause) => {
          this.#taken();
          if (fin) done(cause);
        });
      }
    });
  }

  /** The peer is to take one frame at a time: its time for the next begins when it has. */
  #begin(bytes: number): void {
    this.#pending.push(bytes);
    if (this.#pending.length === 1) this.#watch.begin(bytes);
  }

  #taken(): void {
    this.#watch.moved(this.#pending.shift() ?? 0);
    const [next] = this.#pending;
    if (next !== undefined) this.#watch.begin(next);
  }
}

const fragmentBytes = 2 ** 16;
