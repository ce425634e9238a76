import { SluiceError } from "@sluice/core";
import type { ReaderWatch } from "@sluice/core/internal/node";
import type { WebSocket } from "ws";

/** Sends messages, and has their reader watched while they wait. */
export class FrameSender {
  readonly #socket: WebSocket;
  readonly #watch: ReaderWatch;

  constructor(socket: WebSocket, watch: ReaderWatch) {
    this.#socket = socket;
    this.#watch = watch;
  }

  /** Resolves when the network took it; rejects with `interrupted` when the connection is gone. */
  send(data: string | Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.send(data, (cause) => {
        if (!cause) resolve();
        else reject(new SluiceError("interrupted", "ws: send: the connection is gone", { cause }));
      });
      this.#watch.begin();
    });
  }
}
