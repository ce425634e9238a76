import type { IncomingMessage } from "node:http";

const deadlines = new WeakMap<IncomingMessage, NodeJS.Timeout>();
const waiting = new WeakSet<IncomingMessage>();

/** Closes the connection of a request whose body is not there in time, unless that is lifted. */
export function setBodyDeadline(req: IncomingMessage, timeoutMs: number): void {
  const { "content-length": length, "transfer-encoding": coding } = req.headers;
  if (coding === undefined && (length === undefined || length === "0")) return;
  const timer = setTimeout(() => {
    if (!req.complete) req.socket.destroy();
  }, timeoutMs);
  timer.unref();
  deadlines.set(req, timer);
  req.once("close", () => liftBodyDeadline(req));
}

/** Leaves the pace of a body to its reader. */
export function liftBodyDeadline(req: IncomingMessage): void {
  clearTimeout(deadlines.get(req));
  deadlines.delete(req);
}

/** Remembers that the client sends its body after `100 Continue` only, which is not sent yet. */
export function holdContinue(req: IncomingMessage): void {
  waiting.add(req);
}

/** True when the client still waits for `100 Continue`. */
export function awaitsContinue(req: IncomingMessage): boolean {
  return waiting.has(req);
}

/** Remembers that it was said; true when it was to be said. */
export function releaseContinue(req: IncomingMessage): boolean {
  return waiting.delete(req);
}
