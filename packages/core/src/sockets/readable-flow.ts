import { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { onAbort } from "../async/on-abort.ts";
import type { ByteFlow, Lending, WriteChunk } from "../bytes/byte-flow.ts";
import { SluiceError } from "../errors/error.ts";
import { inletOf } from "./socket-inlet.ts";

/** Settings of {@link flowOfReadable}. */
export interface ReadableFlowOptions {
  /** Start of messages. */
  readonly operation: string;
  /** Ends the flow with `signal.reason`, even while it is not pumped. */
  readonly signal?: AbortSignal | undefined;
  /** The response of Node's HTTP client whose body the stream gives unchanged. Default: the stream, where it is one. */
  readonly message?: IncomingMessage | undefined;
  /**
   * A body of which fewer bytes are left goes through the HTTP parser, and its connection can carry the next request. A
   * larger one is read past the parser, and its connection is closed. Default: 8 MiB, beside which a new TLS
   * connection costs little.
   */
  readonly divertBytes?: number | undefined;
  /** Makes the error of a stream that broke. Default: `interrupted`. */
  readonly toError?: ((cause: unknown) => Error) | undefined;
}

/**
 * The bytes of a stream of Node, such as the response of its HTTP client. Every end that is not the promised one is an
 * error. Bodies of responses over {@link createInletAgents} can be lent.
 */
export function flowOfReadable(readable: Readable, options: ReadableFlowOptions): ByteFlow {
  const { operation, signal, divertBytes = 8 * 2 ** 20 } = options;
  const { message = readable instanceof IncomingMessage ? readable : undefined } = options;
  // the pump reports an error that comes before it begins
  readable.on("error", () => {});
  const stopListening = onAbort(signal, () => readable.destroy());
  readable.once("close", stopListening);

  function errorOf(cause: unknown): unknown {
    if (signal?.aborted) return signal.reason;
    if (options.toError) return options.toError(cause);
    return new SluiceError("interrupted", `${operation}: the connection broke`, { cause });
  }
  return {
    pump: (write, lending) =>
      new Promise((resolve, reject) => {
        function fail(error: unknown): void {
          readable.destroy();
          reject(error);
        }
        let isWhole = false;
        let lastWrite: Promise<void> | void;
        const broken = (cause?: unknown): void => {
          if (!isWhole) fail(errorOf(cause));
        };
        // Node reads a response to its end when it is aborted: no event of it is left then
        const isOver = readable.destroyed && !readable.readableEnded;
        if (isOver || signal?.aborted) return broken(readable.errored);
        readable.on("error", broken);
        readable.on("close", broken);
        readable.on("end", () => {
          // a body that only its connection ends looks whole when it is aborted
          if (signal?.aborted) return broken();
          isWhole = true;
          // `end` is emitted while the last write is still pending, and that write may fail
          Promise.resolve(lastWrite).then(resolve, reject);
        });
        // the source is done, the last chunk perhaps not: it may still fail
        const finish = (wait: Promise<void> | void): void => {
          isWhole = true;
          if (wait) wait.then(resolve, reject);
          else resolve();
          readable.destroy();
        };
        const divert =
          message &&
          lending &&
          createDiverter({ readable, message, divertBytes }, write, lending, fail, finish);
        const noting: WriteChunk = (chunk) => (lastWrite = write(chunk));
        pumpParsed(readable, noting, fail, divert && { divert, message });
      }),
    cancel() {
      readable.destroy();
    },
  };
}

/** Reads the rest of a body straight from the socket. Tried each time the parser has run dry. */
interface Diversion {
  readonly message: IncomingMessage;
  readonly divert: (given: number) => void;
}

/** Gives what the HTTP parser gives, and offers the rest to the diversion. */
function pumpParsed(
  readable: Readable,
  write: WriteChunk,
  fail: (error: unknown) => void,
  diversion: Diversion | undefined,
): void {
  let givenBytes = 0;
  function goOn(): void {
    diversion?.divert(givenBytes);
    readable.resume();
    diversion?.message.socket.resume();
  }
  readable.on("data", (chunk: Uint8Array) => {
    try {
      givenBytes += chunk.length;
      const wait = write(chunk);
      if (!wait) return diversion?.divert(givenBytes);
      readable.pause();
      // or else the parser continues until it has a chunk in store, and never has nothing
      diversion?.message.socket.pause();
      wait.then(goOn, fail);
    } catch (error) {
      fail(error);
    }
  });
}

/** A body that may be read past the parser. */
interface Divertible {
  readonly readable: Readable;
  readonly message: IncomingMessage;
  readonly divertBytes: number;
}

/**
 * Takes the rest of a body of known length straight from the socket, into reused memory, where
 * possible. The parser has done its work by then: only the number of missing bytes matters.
 */
function createDiverter(
  { readable, message, divertBytes }: Divertible,
  write: WriteChunk,
  lending: Lending,
  fail: (error: unknown) => void,
  finish: (wait: Promise<void> | void) => void,
): ((given: number) => void) | undefined {
  const inlet = inletOf(message.socket);
  const length = Number(message.headers["content-length"]);
  if (!inlet || message.headers["transfer-encoding"] !== undefined || !(length > divertBytes))
    return undefined;
  let diverted = false;
  return (given) => {
    const isIdle = readable.readableLength === 0 && message.readableLength === 0;
    if (diverted || !isIdle || length - given < divertBytes) return;
    diverted = true;
    let missing = length - given;
    const writeRest: WriteChunk = (bytes, release) => {
      const chunk = bytes.length > missing ? bytes.subarray(0, missing) : bytes;
      missing -= chunk.length;
      const wait = write(chunk, release);
      if (missing === 0) finish(wait);
      return wait;
    };
    inlet.divert(writeRest, lending, fail);
  };
}
