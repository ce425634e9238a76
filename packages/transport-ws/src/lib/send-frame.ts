import type { PeerWatch } from "@sluice/binary-transfer/client";
import { SluiceError } from "@sluice/core";
import type { WebSocket } from "ws";

/**
 * Sends a message, watched for how fast the peer takes it. Resolves when the network took it; rejects with
 * `interrupted` when the connection is gone.
 */
export function sendFrame(
  socket: WebSocket,
  data: string | Uint8Array,
  watch: PeerWatch,
): Promise<void> {
  watch.begin(data.length);
  return new Promise((resolve, reject) => {
    socket.send(data, (cause) => {
      watch.moved(data.length);
      if (!cause) resolve();
      else reject(new SluiceError("interrupted", "ws: send: the connection is gone", { cause }));
    });
  });
}
