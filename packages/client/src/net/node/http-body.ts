import type { ClientRequest } from "node:http";
import { onAbort } from "@sluice/core/async";
import type { OutgoingBody } from "../outgoing-body.ts";

/** Sends the body of one request. */
export interface BodySending {
  /** Begins, once there is a connection. Resolves when it ended or was stopped; rejects with what reading threw. */
  begin(): Promise<void>;
  /** Sends nothing more. True when all of it went out. */
  stop(): boolean;
}

/** A body from which on the server is asked first whether it wants it (RFC 9110 §10.1.1). */
const expectBytes = 2 ** 20;
/** Not every server knows how to say that it does. */
const continueMs = 1_000;

/** True for a body that is sent when the server has said that it wants it, or says nothing. */
export function isAnnounced(body: OutgoingBody): boolean {
  return body.length >= expectBytes;
}

/** Sends a body as fast as the server takes it. `handed` hears of the bytes that went out. */
export function createBodySending(
  outgoing: ClientRequest,
  body: OutgoingBody,
  handed: (bytes: number) => void,
): BodySending {
  const stop = new AbortController();
  let handedBytes = 0;

  /** A request that is destroyed before it has a connection never says what became of its bytes. */
  function write(chunk: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        stop.signal.removeEventListener("abort", done);
        resolve();
      };
      stop.signal.addEventListener("abort", done, { once: true });
      // the request itself reports what went wrong with the connection
      outgoing.write(chunk, done);
      handedBytes += chunk.length;
      handed(chunk.length);
    });
  }

  /** Waits until the server wants the body, or does not say. */
  function mayBegin(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, continueMs);
      const goOn = (): void => {
        clearTimeout(timer);
        resolve();
      };
      outgoing.once("continue", goOn);
      onAbort(stop.signal, goOn);
    });
  }

  /** Each piece when the one before it went out, so that memory may be used again. */
  async function writePieces(): Promise<void> {
    for (const piece of body.pieces) {
      if (stop.signal.aborted) return;
      if (piece instanceof Uint8Array) {
        await write(piece);
        continue;
      }
      let at = piece.start;
      for await (const chunk of piece.file.chunks(piece.start, piece.end)) {
        if (stop.signal.aborted) return;
        piece.seen?.(chunk, at);
        at += chunk.length;
        await write(chunk);
      }
    }
  }

  return {
    async begin() {
      try {
        if (isAnnounced(body)) await mayBegin();
        await writePieces();
        if (!stop.signal.aborted) outgoing.end();
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      }
    },
    stop() {
      stop.abort();
      const sentAll = handedBytes === body.length;
      if (sentAll && !outgoing.writableEnded) outgoing.end();
      return sentAll;
    },
  };
}
