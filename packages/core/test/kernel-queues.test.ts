import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { readQueues } from "../src/sockets/kernel-queues.ts";

const sockets: Socket[] = [];
afterEach(() => sockets.splice(0).forEach((socket) => socket.destroy()));

/** Ends of a server, each of which wrote as many bytes as its place, to peers that read nothing. */
async function writeUnread(count: number, host: string, peerHost: string): Promise<Socket[]> {
  const server = createServer().listen(0, host);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const ends: Socket[] = [];
  for (let n = 0; n < count; n += 1) {
    const accepted = once(server, "connection") as Promise<[Socket]>;
    sockets.push(connect(port, peerHost).pause());
    const [end] = await accepted;
    sockets.push(end);
    ends.push(end);
    end.write(Buffer.alloc(n));
  }
  server.close();
  return ends;
}

describe.skipIf(process.platform !== "linux")("the queues of the system", () => {
  test.each([
    ["a few sockets", 4, "127.0.0.1", "127.0.0.1"],
    ["many sockets", 40, "127.0.0.1", "127.0.0.1"],
    ["many sockets of IPv6", 40, "::1", "::1"],
    ["many sockets of IPv4 at a server of both", 40, "::", "127.0.0.1"],
  ])("tell what each peer of %s has not read", async (_name, count, host, peerHost) => {
    const ends = await writeUnread(count, host, peerHost);
    const unread = async () =>
      (await Promise.all(ends.map(readQueues))).map((queues) => queues?.unread);
    await expect.poll(unread).toEqual(ends.map((_end, n) => n));
  });
});
