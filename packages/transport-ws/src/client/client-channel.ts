import type { BinaryLimits } from "@sluice/binary-transfer/transport";
import { closings } from "../messages/closing.ts";
import type { SocketPort } from "./socket-port.ts";
import { createBinaryChannel, type BinaryChannel } from "../binary/binary-channel.ts";

/** Parts of the client's end of a channel. */
interface ClientChannelOptions extends BinaryLimits {
  /** Capabilities that the server declared on an earlier connection. */
  readonly declared: unknown;
  /** Bytes that may wait for a server that does not read. */
  readonly maxBufferedBytes: number;
  readonly onError: (error: unknown) => void;
}

/** The client's end over a socket that may be there only later. */
export function createClientChannel(
  socket: () => SocketPort | undefined,
  { maxBufferedBytes, onError, ...options }: ClientChannelOptions,
): BinaryChannel {
  let heldUp = 0;

  async function holdUp(room: Promise<void>): Promise<void> {
    heldUp += 1;
    socket()?.pause?.();
    await room;
    heldUp -= 1;
    if (heldUp === 0) socket()?.resume?.();
  }

  return createBinaryChannel("client", options, {
    sendText(text) {
      // a server that does not read could have them pile up
      if ((socket()?.bufferedAmount ?? 0) > maxBufferedBytes) socket()?.close(closings.slow);
      else socket()?.send(text);
    },
    async sendBinary(frame) {
      await socket()?.sendBinary(frame);
    },
    get canPause() {
      return socket()?.pause !== undefined;
    },
    pauseUntil: (room) => void holdUp(room),
    breakOff: () => socket()?.close(closings.fault),
    onError,
  });
}
