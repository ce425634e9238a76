import type { IncomingMessage, ServerResponse } from "node:http";
import { SluiceError } from "@sluice/core";
import { onAbort } from "@sluice/core/internal";
import type { RequestBody } from "../endpoint/plain-route.ts";
import { NodeExchange } from "./node-exchange.ts";

/** The body of a request of `node:http`, straight from its parser; absent when it has none. */
export function nodeBody(req: IncomingMessage): RequestBody | undefined {
  const { "content-length": length, "transfer-encoding": coding } = req.headers;
  if (coding === undefined && (length === undefined || Number(length) === 0)) return undefined;
  return {
    read: (take, signal) =>
      new Promise<void>((resolve, reject) => {
        let taking: Promise<void> | undefined;
        let unlisten: (() => void) | undefined;
        const settle = (): void => {
          req.off("data", onData).off("end", onEnd).off("error", onClose).off("close", onClose);
          unlisten?.();
        };
        const fail = (error: unknown): void => {
          settle();
          req.pause();
          reject(error);
        };
        const onData = (chunk: Uint8Array): void => {
          try {
            const wait = take(chunk);
            if (!wait) return;
            req.pause();
            taking = wait;
            wait.then(() => void (signal.aborted || req.resume()), fail);
          } catch (error) {
            fail(error);
          }
        };
        const onEnd = (): void => {
          settle();
          // the last chunk may still be on its way
          resolve(taking);
        };
        const onClose = (): void =>
          fail(new SluiceError("interrupted", "http: the connection closed within a body"));
        if (signal.aborted) return fail(signal.reason);
        // an ended stream would pass for an empty body
        if (req.readableEnded)
          return reject(
            new Error("http: middleware read the body; mount the handler in front of body parsers"),
          );
        // text may have lost bytes already
        if (req.readableEncoding !== null)
          return reject(
            new Error(
              "http: middleware set an encoding of the body; mount the handler in front of it",
            ),
          );
        if (req.destroyed) return onClose();
        unlisten = onAbort(signal, fail);
        req.on("data", onData).on("end", onEnd).on("error", onClose).on("close", onClose);
        // the reader of a body has deadlines of its own
        liftBodyDeadline(req);
        req.resume();
      }),
  };
}

/**
 * Waits until the rest of a refused body has come: at most 64 MiB and 10 s, and no longer than 2 s without a byte. Closing a
 * connection that has unread bytes resets it, and a sender that still writes may never see why.
 */
export async function drainBody(req: IncomingMessage): Promise<void> {
  if (req.complete || req.destroyed || NodeExchange.find(req)?.awaitsContinue) return;
  const endsAt = performance.now() + maxDrainMs;
  let remainingBytes = maxDrainBytes;
  await new Promise<void>((resolve) => {
    const stop = (): void => {
      clearTimeout(silence);
      req.off("data", onData).off("end", stop).off("error", stop).off("close", stop);
      req.pause();
      resolve();
    };
    const onData = (chunk: Uint8Array | string): void => {
      silence.refresh();
      remainingBytes -= chunk.length;
      if (remainingBytes < 0 || performance.now() > endsAt) stop();
    };
    const silence = setTimeout(stop, maxDrainSilenceMs);
    req.on("data", onData).on("end", stop).on("error", stop).on("close", stop);
    req.resume();
  });
}

/** After a response: waits as `drainBody` does, then destroys the connection if the body is incomplete. */
export async function endBody(req: IncomingMessage): Promise<void> {
  await drainBody(req);
  if (!req.complete) req.destroy();
}

/**
 * Sends 408 and closes the connection if the body is not there in time, unless the deadline is lifted. `onWait` is called
 * if there is a body; the function that it returns, when the body has ended or the deadline is lifted.
 */
export function setBodyDeadline(
  req: IncomingMessage,
  res: ServerResponse,
  { timeoutMs, onWait }: { readonly timeoutMs: number; readonly onWait: () => () => void },
): void {
  const { "content-length": length, "transfer-encoding": coding } = req.headers;
  if (coding === undefined && (length === undefined || length === "0")) return;
  const timer = setTimeout(() => {
    if (req.complete) return;
    const { socket } = req;
    // past `res`: the reader of the body sees the connection close, and may still try to respond
    if (!res.headersSent && res.socket) socket.write(bodyTimeout);
    socket.destroySoon();
  }, timeoutMs);
  timer.unref();
  const onEnd = onWait();
  NodeExchange.of(req).liftBodyDeadline = () => {
    clearTimeout(timer);
    onEnd();
  };
  const lift = (): void => liftBodyDeadline(req);
  req.once("end", lift).once("close", lift);
}

const bodyTimeout =
  "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/** Cancels the deadline of the body: from now on its reader decides how slow it may be. */
export function liftBodyDeadline(req: IncomingMessage): void {
  NodeExchange.find(req)?.liftBodyDeadline?.();
}

/** Sends `100 Continue` once something reads the body, so that a request that is refused before gets none. */
export function holdContinue(req: IncomingMessage, res: ServerResponse): void {
  const exchange = NodeExchange.of(req);
  exchange.awaitsContinue = true;
  const onListener = (event: string | symbol): void => {
    if (event !== "data" && event !== "readable") return;
    req.off("newListener", onListener);
    exchange.awaitsContinue = false;
    if (!res.headersSent) res.writeContinue();
  };
  req.on("newListener", onListener);
}

const maxDrainBytes = 64 * 2 ** 20;
const maxDrainMs = 10_000;
const maxDrainSilenceMs = 2_000;
