import { Server as HttpServer } from "node:http";
import { Server as HttpsServer } from "node:https";
import type { AddressInfo, Server } from "node:net";

/** A server on a free loopback port. */
export interface Listening {
  readonly port: number;
  /** `http://127.0.0.1:<port>`, or `https:` for a server with TLS. */
  readonly origin: string;
  /** Ends open connections too. */
  close(): Promise<void>;
}

export async function listen(server: Server): Promise<Listening> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    origin: `${server instanceof HttpsServer ? "https" : "http"}://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        if (server instanceof HttpServer || server instanceof HttpsServer)
          server.closeAllConnections();
      }),
  };
}
