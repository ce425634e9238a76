import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** A proxy that stalls, without closing, after a number of response bytes. */
export interface StallingProxy {
  /** `http://127.0.0.1:<port>` */
  readonly origin: string;
  /** Port behind it. */
  target: number;
  /** Bytes of each connection's answers that still pass. */
  bytesLeft: number;
  /** Resolves when the line has stopped. */
  readonly stalled: Promise<void>;
  /** Breaks every connection. */
  cut(): void;
  close(): void;
}

export async function createStallingProxy(): Promise<StallingProxy> {
  const sockets = new Set<Socket>();
  let stall: (() => void) | undefined;
  const stalled = new Promise<void>((resolve) => (stall = resolve));
  const server = createServer((client) => {
    const upstream = connect(proxy.target, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    let carried = 0;
    upstream.on("data", (chunk) => {
      carried += chunk.length;
      if (carried > proxy.bytesLeft) {
        upstream.pause();
        stall?.();
      } else if (!client.write(chunk)) {
        // what the proxy carried, the client has taken, but for what sockets hold
        upstream.pause();
        client.once("drain", () => upstream.resume());
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy: StallingProxy = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    target: 0,
    bytesLeft: Infinity,
    stalled,
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    close() {
      server.close();
      proxy.cut();
    },
  };
  return proxy;
}
