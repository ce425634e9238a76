import { Server as HttpServer } from "node:http";
import { Server as HttpsServer } from "node:https";
import { createServer, type AddressInfo, type Server } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

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

/** A loopback port that is free at the moment, for a program that listens itself. */
export async function freePort(): Promise<number> {
  const probe = await listen(createServer());
  await probe.close();
  return probe.port;
}

/** Waits until a program answers at a URL, whatever it answers. */
export async function untilAnswered(url: string): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    const isAnswered = await fetch(url).then(
      async ({ body }) => {
        await body?.cancel();
        return true;
      },
      () => false,
    );
    if (isAnswered) return;
    await sleep(50);
  }
  throw new Error(`nothing listens on ${url} after ten seconds`);
}
