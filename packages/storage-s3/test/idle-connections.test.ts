import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { once } from "node:events";
import { createS3Backend } from "@sluice/storage-s3";
import { protect } from "@sluice/storage";
import { expect, test } from "vitest";

/**
 * A store that closes each connection when its second request comes, as one does whose idle time
 * expired just then.
 */
async function startImpatient() {
  const used = new WeakSet<Socket>();
  let closed = 0;
  const server = createServer((request, response) => {
    const { socket } = request;
    if (used.has(socket)) {
      closed++;
      socket.resetAndDestroy();
      return;
    }
    used.add(socket);
    request.resume().on("end", () => response.writeHead(200, { etag: '"1"' }).end());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    closed: () => closed,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

test("connections that died while they were idle end no write, whatever their number", async () => {
  await using store = await startImpatient();
  const credentials = { accessKeyId: "a", secretAccessKey: "b" };
  const options = { bucket: "b", endpoint: store.endpoint, credentials, writable: true };
  const raw = createS3Backend(options);
  const backend = protect(raw, { retryBudget: 0 });
  for (let burst = 0; burst < 5; burst++)
    await Promise.all(
      Array.from({ length: 8 }, async (_, n) => {
        const writer = await backend.write!(`${burst}-${n}`);
        await writer.write(new Uint8Array(10));
        await writer.commit();
      }),
    );
  expect(store.closed()).toBeGreaterThan(4);
  await raw.close?.();
});
