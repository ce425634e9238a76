import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { BINARY_ABORT_METHOD, BINARY_CREDIT_METHOD } from "@sluice/core/internal";
import {
  type BinaryPeer,
  type BinaryPeerOptions,
  createBinaryPeer,
  type BinaryLimits,
} from "@sluice/binary-transfer/internal";
import { FrameInlet } from "./frame-inlet.ts";
import { FrameOutlet } from "./frame-outlet.ts";

interface BinaryLink {
  sendText(text: string): void;
  /** Resolves when the network took it. */
  sendBinary(frame: Uint8Array): Promise<void>;
  /** False where the platform's sockets cannot stop reading. */
  readonly canPause: boolean;
  /** Reads nothing until the promise settles. */
  pauseUntil(room: Promise<void>): void;
  /** Ends the connection: a stream broke, and nothing else would tell the peer. */
  breakOff(): void;
  onError(error: unknown): void;
}

interface ReadResult<Message> {
  /** For the SDK; absent when it was for the channel itself. */
  readonly message?: Message;
  /** False for a credit of many bytes: the message rate does not count it. */
  readonly isCounted: boolean;
}

/** One end of a connection whose messages may refer to binary frames beside them. */
export interface BinaryChannel {
  readonly peer: BinaryPeer;
  /** True while nothing is on its way out. */
  readonly isIdle: boolean;
  /**
   * The text of a message. Call `follow` as soon as it was handed to the socket: it sends the streams
   * that the message refers to, and resolves with their number when they are through.
   */
  write(message: object): { readonly text: string; readonly follow: () => Promise<number> };
  read<Message extends object>(message: Message): ReadResult<Message>;
  /**
   * Takes a binary frame. `small`: the message rate counts it. `stray`: of no stream here. `refused`: no frames
   * were negotiated.
   */
  readFrame(frame: Uint8Array): "taken" | "small" | "stray" | "refused";
  close(reason: unknown): void;
}

/**
 * Makes one end. Close it with its connection. `declared` is the declaration of the peer on an
 * earlier connection, for one that declares only once.
 */
export function createBinaryChannel(
  role: BinaryPeerOptions["role"],
  options: BinaryLimits & { readonly declared?: unknown },
  link: BinaryLink,
): BinaryChannel {
  const { maxBinaryBytes = 2 ** 30, windowBytes = 2 ** 20, ...limits } = options;
  const { idleMs = 30_000 } = limits;
  const outlet = new FrameOutlet(
    {
      send: (frame) => link.sendBinary(frame),
      giveUp({ ref }, reason) {
        if (ref.interleave) notify(BINARY_ABORT_METHOD, { streamId: ref.streamId, reason });
        else link.breakOff();
      },
    },
    // after the receiver's own limit, whose error says what is wrong
    2 * idleMs,
  );
  const inlet = new FrameInlet({
    inbox: () => peer.inbox,
    windowBytes,
    canPause: () => link.canPause,
    control: {
      credit: (streamId, bytes) => notify(BINARY_CREDIT_METHOD, { streamId, bytes }),
      abort: (streamId, reason) => notify(BINARY_ABORT_METHOD, { streamId, reason }),
    },
  });
  const peer = createBinaryPeer({
    ...limits,
    role,
    mode: "websocket-binary",
    maxBinaryBytes,
    windowBytes,
    interleave: { windowBytes },
    onRead: (streamId, bytes) => inlet.onRead(streamId, bytes),
    onEnd: (streamId, error) => inlet.onEnd(streamId, error),
  });

  function notify(method: string, params: object): void {
    link.sendText(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  /** Takes a credit or an abort. True unless it is a credit of many bytes that were sent. */
  function takeControl(method: unknown, { streamId, bytes, reason }: Params): boolean {
    if (typeof streamId !== "string") return true;
    if (method === BINARY_ABORT_METHOD) {
      const code = isCode(reason) ? reason : "interrupted";
      outlet.drop(streamId, code);
      inlet.drop(streamId, code);
      return true;
    }
    if (typeof bytes !== "number" || !Number.isSafeInteger(bytes) || bytes < 1) return true;
    return !outlet.credit(streamId, bytes) || bytes < uncountedBytes;
  }

  /** Turns a message whose references are malformed into an error for the request that waits for a response. */
  function refuse<Message extends object>(message: Message, error: unknown): ReadResult<Message> {
    link.onError(error);
    const { id, method } = message as { id?: unknown; method?: unknown };
    const answer = { jsonrpc: "2.0", id, error: malformedReference };
    if (method === undefined) return { message: answer as unknown as Message, isCounted: true };
    if (id !== undefined) link.sendText(JSON.stringify(answer));
    return { isCounted: true };
  }

  return {
    peer,
    get isIdle() {
      return outlet.size === 0;
    },
    write(message) {
      const { text, streams } = peer.sending(message);
      const window = peer.terms?.interleave?.windowBytes;
      return {
        text,
        async follow() {
          await Promise.all(streams.map((stream) => outlet.add(stream, window)));
          return streams.length;
        },
      };
    },
    read(message) {
      const { method, params } = message as { method?: unknown; params?: Params };
      if (method === BINARY_CREDIT_METHOD || method === BINARY_ABORT_METHOD)
        return { isCounted: takeControl(method, params ?? {}) };
      try {
        const received = peer.received(message);
        for (const ref of received.refs) inlet.begin(ref);
        return { message: received.message, isCounted: true };
      } catch (error) {
        return refuse(message, error);
      }
    },
    readFrame(frame) {
      if (!peer.terms) return "refused";
      try {
        const room = inlet.take(frame);
        if (room) link.pauseUntil(room);
        return frame.length < uncountedBytes ? "small" : "taken";
      } catch (error) {
        link.onError(error);
        return "stray";
      }
    },
    close(reason) {
      outlet.close(reason);
      peer.close(reason);
    },
  };
}

type Params = Readonly<Record<string, unknown>>;

/**
 * From this many bytes on, the message rate counts no frame and no credit. Fewer come only at the
 * end of a stream.
 */
const uncountedBytes = 2_048;

const malformedReference = {
  code: -32_602,
  message: "Invalid params: a reference to bytes is malformed",
  data: { reason: "invalid" },
};

function isCode(reason: unknown): reason is SluiceErrorCode {
  return SluiceError.is({ name: "SluiceError", code: reason });
}
