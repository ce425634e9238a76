import type { WebSocket } from "ws";
import { SluiceError } from "@sluice/core";

/** Sends a binary frame. Resolves when the network took it; rejects with `interrupted` when the connection is gone. */
export function sendFrame(socket: WebSocket, frame: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.send(frame, (cause) => {
      if (!cause) resolve();
      else reject(new SluiceError("interrupted", "ws: send: the connection is gone", { cause }));
    });
  });
}
