import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** A bad line: passes bytes on until it has carried enough of them, then breaks once. */
export interface CuttingProxy {
  /** `http://127.0.0.1:<port>` */
  readonly origin: string;
  /** Port of the server behind it; set it before the first connection. */
  target: number;
  /** Breaks the line once, when one connection has carried `afterBytes` of answers. */
  cutAfter(afterBytes: number, onCut: () => void): void;
  /** Called with the `Range` header of every request that has one. */
  onRange: (range: string) => void;
  close(): void;
}

const silenceMs = 250;

/** Starts a proxy on a free port of this machine. */
export async function createCuttingProxy(): Promise<CuttingProxy> {
  const sockets = new Set<Socket>();
  let cut: { readonly afterBytes: number; readonly onCut: () => void } | undefined;

  const server = createServer((client) => {
    const upstream = connect(proxy.target, "127.0.0.1");
    let carried = 0;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (chunk) => {
      const range = /^range: *(.+?)\r$/im.exec(chunk.toString("latin1"))?.[1];
      if (range !== undefined) proxy.onRange(range);
    });
    upstream.on("data", (chunk) => {
      carried += chunk.length;
      if (cut === undefined || carried < cut.afterBytes) return;
      const { onCut } = cut;
      cut = undefined;
      upstream.pause();
      // a reset throws away what the client has not read yet: let it read what was carried
      setTimeout(() => {
        client.resetAndDestroy();
        onCut();
      }, silenceMs);
    });
    client.pipe(upstream);
    upstream.pipe(client);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  const proxy: CuttingProxy = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    target: 0,
    cutAfter(afterBytes, onCut) {
      cut = { afterBytes, onCut };
    },
    onRange() {},
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  return proxy;
}
