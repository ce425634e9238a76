import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";

/** Asks one WebSocket server for pings, one after the other. */
export interface Pinger extends AsyncDisposable {
  readonly socket: WebSocket;
  /** Round trips in milliseconds while `work` runs, ascending. */
  during(work: () => Promise<unknown>): Promise<readonly number[]>;
  /** The result of a call. */
  call(method: string, params: object): Promise<Record<string, unknown>>;
}

/** Opens a connection; `initialize` is said first where the server wants it. */
export async function createPinger(
  url: string,
  { initialize = true }: { readonly initialize?: boolean } = {},
): Promise<Pinger> {
  const socket = new WebSocket(url, initialize ? "mcp" : [], { maxPayload: 2 ** 24 });
  await once(socket, "open");
  let lastId = 0;
  const waiting = new Map<number, (result: Record<string, unknown>) => void>();
  socket.on("message", (data, isBinary) => {
    if (isBinary) return;
    const { id, result } = JSON.parse((data as Buffer).toString()) as {
      id: number;
      result: Record<string, unknown>;
    };
    waiting.get(id)?.(result);
    waiting.delete(id);
  });
  const call: Pinger["call"] = (method, params) =>
    new Promise((resolve) => {
      lastId += 1;
      waiting.set(lastId, resolve);
      socket.send(JSON.stringify({ jsonrpc: "2.0", id: lastId, method, params }));
    });
  if (initialize)
    await call("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: { resourceStreaming: {} },
      clientInfo: { name: "bench", version: "0.0.0" },
    });
  return {
    socket,
    call,
    async during(work) {
      const times: number[] = [];
      const over = new AbortController();
      const working = work().finally(() => over.abort());
      while (!over.signal.aborted) {
        const startedAt = performance.now();
        await call("ping", {});
        times.push(performance.now() - startedAt);
        await sleep(1);
      }
      await working;
      return times.toSorted((a, b) => a - b);
    },
    async [Symbol.asyncDispose]() {
      socket.terminate();
      if (socket.readyState !== socket.CLOSED) await once(socket, "close");
    },
  };
}
