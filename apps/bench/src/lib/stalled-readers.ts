import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** Readers that ask for a file and then take nothing. */
export interface StalledReaders extends AsyncDisposable {
  /** Adds `count`; resolves once every buffer on the way is full. */
  open(count: number): Promise<void>;
}

/** None yet. */
export function createStalledReaders(url: string, signal: AbortSignal): StalledReaders {
  const { host, port, pathname } = new URL(url);
  const sockets: Socket[] = [];
  return {
    async open(count) {
      for (let n = 0; n < count; n += 1) {
        const socket = connect(Number(port), "127.0.0.1").pause();
        sockets.push(socket);
        await once(socket, "connect", { signal });
        socket.on("error", () => {}); // the server may give up on it; its memory is what counts
        socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      }
      await sleep(1500, undefined, { signal });
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
    },
  };
}
