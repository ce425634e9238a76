import { SluiceError } from "@sluice/core";
import { onAbort, sleep, ThroughputBudget } from "@sluice/core/internal";
import type { OpenSocket } from "./socket-port.ts";
import { offeredProtocols, SUBPROTOCOL } from "../messages/closing.ts";

/** The part of WebSocket that is used, which browsers, Deno, Bun, Workers and newer Nodes have built in. */
interface WebSocketLike {
  readonly protocol: string;
  readonly bufferedAmount: number;
  binaryType: string;
  readonly readyState: number;
  send(data: string | Uint8Array): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: string, listener: (event: never) => void): void;
}

/** Opens a socket of the platform. Browsers do not tell why it fails: it is `unavailable` for every cause. */
export function openWebSocket(url: URL, ticket: () => Promise<string | undefined>): OpenSocket {
  return async (events, signal) => {
    signal.throwIfAborted();
    const { WebSocket } = globalThis as unknown as {
      WebSocket?: new (url: string, protocols: string[]) => WebSocketLike;
    };
    if (!WebSocket)
      throw new SluiceError(
        "unsupported",
        'ws: no WebSocket here; in Node, set the condition "node" for the bundler',
      );
    const protocols = offeredProtocols(await ticket());
    signal.throwIfAborted();
    const socket = new WebSocket(url.href, protocols);
    socket.binaryType = "arraybuffer";
    let isOpen = false;
    await new Promise<void>((resolve, reject) => {
      const stop = (): void => {
        socket.close();
        reject(signal.reason as Error);
      };
      const unlisten = onAbort(signal, stop);
      socket.addEventListener("open", () => {
        unlisten();
        isOpen = true;
        resolve();
      });
      socket.addEventListener("close", ({ code, reason }: { code: number; reason: string }) => {
        unlisten();
        if (isOpen) events.closed(code, reason);
        else reject(new SluiceError("unavailable", `ws: ${url.host} could not be reached`));
      });
      socket.addEventListener("message", ({ data }: { data: unknown }) => {
        if (typeof data === "string") events.text(data);
        else events.binary(new Uint8Array(data as ArrayBuffer));
      });
    });
    if (socket.protocol !== SUBPROTOCOL) {
      isOpen = false;
      socket.close();
      throw new SluiceError("protocol", `ws: ${url.host} does not speak the subprotocol mcp`);
    }
    const budget = new ThroughputBudget(graceMs);
    return {
      send: (text) => socket.send(text),
      async sendBinary(frame) {
        socket.send(frame);
        // no event tells when the buffer has emptied
        for (let bufferedBytes = socket.bufferedAmount; bufferedBytes > 0;) {
          if (socket.readyState !== open)
            throw new SluiceError("interrupted", "ws: send: the connection is gone");
          const at = performance.now();
          await sleep(pollMs);
          const now = socket.bufferedAmount;
          // a page in the background looks only now and then: bytes that have left by then are not
          // late
          if (now > 0) budget.spend(performance.now() - at, Math.max(0, bufferedBytes - now));
          bufferedBytes = now;
          if (budget.leftMs < 0) {
            socket.close(1000);
            throw new SluiceError("timeout", `ws: send: ${url.host} reads nothing, or too little`);
          }
        }
      },
      // browsers let a page say no other code than 1000 and those from 3000
      close: () => socket.close(1000),
      get bufferedAmount() {
        return socket.bufferedAmount;
      },
    };
  };
}

/** `readyState` of an open socket. */
const open = 1;
const pollMs = 4;
/** Milliseconds for which a server may take nothing. */
const graceMs = 30_000;
