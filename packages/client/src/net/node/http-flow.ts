import type { IncomingMessage } from "node:http";
import { SluiceError } from "@sluice/core";
import type { Lending, WriteChunk } from "../chunk-sink.ts";
import type { ByteFlow } from "../exchange.ts";
import { inletOf } from "./socket-inlet.ts";

/** The bytes of a response of Node's HTTP client. Every end that is not the promised one is `interrupted`. */
export function flowOf(response: IncomingMessage, signal: AbortSignal): ByteFlow {
  // the pump reports an error that comes before it begins
  response.on("error", () => {});
  return {
    pump: (write, lending) =>
      new Promise((resolve, reject) => {
        function fail(error: unknown): void {
          response.destroy();
          reject(error);
        }
        function broken(cause?: unknown): void {
          const error = new SluiceError("interrupted", "client: the connection broke", { cause });
          fail(signal.aborted ? signal.reason : error);
        }
        // Node reads an answer to its end when it is aborted: no event of it is left then
        const isOver = response.destroyed && !response.readableEnded;
        if (isOver || signal.aborted) return broken(response.errored);
        response.on("error", broken);
        response.on("close", broken);
        // a body that only its connection ends looks whole when it is aborted
        response.on("end", () => (signal.aborted ? broken() : resolve()));
        const finish = (): void => {
          resolve();
          response.destroy();
        };
        pumpParsed(response, write, fail, divertible(response, write, lending, fail, finish));
      }),
    cancel() {
      response.destroy();
    },
  };
}

/** Gives what the HTTP parser gives; calls `idle` whenever it has nothing more at the moment. */
function pumpParsed(
  response: IncomingMessage,
  write: WriteChunk,
  fail: (error: unknown) => void,
  idle: ((given: number) => void) | undefined,
): void {
  let given = 0;
  function goOn(): void {
    idle?.(given);
    response.resume();
    if (idle) response.socket.resume();
  }
  response.on("data", (chunk: Uint8Array) => {
    try {
      given += chunk.length;
      const wait = write(chunk);
      if (!wait) return idle?.(given);
      response.pause();
      // or else the parser goes on until it has a chunk in store, and never has nothing
      if (idle) response.socket.pause();
      wait.then(goOn, fail);
    } catch (error) {
      fail(error);
    }
  });
}

/**
 * What takes the rest of a body of known length straight from the socket, into memory that is used
 * again and again, where that is wanted and possible. The parser has done its work by then: all
 * that is left to know is how many bytes are missing.
 */
function divertible(
  response: IncomingMessage,
  write: WriteChunk,
  lending: Lending | undefined,
  fail: (error: unknown) => void,
  finish: () => void,
): ((given: number) => void) | undefined {
  const inlet = lending && inletOf(response.socket);
  const length = Number(response.headers["content-length"]);
  if (!inlet || response.headers["transfer-encoding"] !== undefined || !(length > smallBytes))
    return undefined;
  let diverted = false;
  return (given) => {
    if (diverted || response.readableLength > 0 || length - given < smallBytes) return;
    diverted = true;
    let missing = length - given;
    const writeRest: WriteChunk = (bytes, release) => {
      const chunk = bytes.length > missing ? bytes.subarray(0, missing) : bytes;
      missing -= chunk.length;
      const wait = write(chunk, release);
      if (missing === 0) finish();
      return wait;
    };
    inlet.divert(writeRest, lending, fail);
  };
}

// the parser is good enough for less, and its connection can be used again
const smallBytes = 2 ** 20;
