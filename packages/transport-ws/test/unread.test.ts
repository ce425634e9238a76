import { once } from "node:events";
import { createByteAccount } from "@sluice/server/internal";
import { expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { SentAnswers } from "../src/server/server-channel.ts";
import { initialize, ping, rawSocket, type RawSocket } from "./raw-socket.ts";
import { bearer, principal, serve } from "./serve.ts";

const mib = 2 ** 20;
const uri = "files://demo/a.bin";
const files = { "a.bin": new Uint8Array(8 * mib), "b.txt": "b" };

const read = (id: number, of = uri) => ({
  jsonrpc: "2.0",
  id,
  method: "resources/read",
  params: { uri: of },
});

async function opened(port: number, headers = {}): Promise<RawSocket> {
  const socket = await rawSocket(port, { headers });
  socket.text(initialize);
  await socket.json();
  return socket;
}

test(
  "a permit over WebSocket is held until the network took the answer, and released when its reader leaves",
  { tags: "slow" },
  async () => {
    const { port } = await serve({
      files,
      sluice: { maxReadBytes: 8 * mib, limits: { streams: { perProcess: 1 } } },
    });
    const reader = await opened(port);
    const other = await opened(port);
    reader.socket.pause();
    reader.text(read(1));
    let id = 1;
    const ask = async (): Promise<string> => {
      other.text(read((id += 1), "files://demo/b.txt"));
      return JSON.stringify(await other.json());
    };
    await expect.poll(ask).toContain('"reason":"busy"');
    expect(await ask()).toContain('"reason":"busy"');
    reader.socket.destroy();
    await expect.poll(ask).toContain('"text":"b"');
  },
);

test(
  "a reader that takes its answer releases the permit while it stays",
  { tags: "slow" },
  async () => {
    const { port } = await serve({
      files,
      sluice: { maxReadBytes: 8 * mib, limits: { streams: { perProcess: 1 } } },
    });
    const reader = new WebSocket(`ws://127.0.0.1:${port}/mcp`, "mcp");
    onTestFinished(() => reader.terminate());
    await once(reader, "open");
    reader.send(JSON.stringify(initialize));
    await once(reader, "message");
    for (let id = 1; id <= 3; id += 1) {
      reader.send(JSON.stringify(read(id)));
      const [data] = (await once(reader, "message")) as [Buffer];
      const { result } = JSON.parse(data.toString()) as {
        result: { contents: [{ blob: string }] };
      };
      expect(Buffer.from(result.contents[0].blob, "base64").length).toBe(8 * mib);
    }
  },
);

test("bytes that wait for one principal are counted over all of its connections", async () => {
  const text = "x".repeat(8 * mib);
  const { port } = await serve({
    files,
    sluice: { principal },
    ws: { bearer, principal, bufferedBytes: { perPrincipal: 12 * mib } },
    register: (mcp) =>
      void mcp.registerTool("big", {}, () => ({ content: [{ type: "text", text }] })),
  });
  const closes = vi.spyOn(WebSocket.prototype, "close");
  onTestFinished(() => closes.mockRestore());
  const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "big" } };
  const of = (name: string) => opened(port, { authorization: `Bearer ${name}` });
  const other = await of("two");
  for (const reader of [await of("one"), await of("one")]) {
    reader.socket.pause();
    reader.text(call);
  }
  await expect.poll(() => closes.mock.calls.map(([code]) => code)).toEqual([1013]);
  other.text(ping);
  expect(await other.json()).toMatchObject({ id: "ping" });
});

test("connections of one address beyond its share are refused with 429, those of another are not", async () => {
  const { port } = await serve({
    sluice: { clientAddress: 1 },
    ws: { connections: { perAddress: 2 } },
  });
  const from = (address: string) => rawSocket(port, { headers: { "x-forwarded-for": address } });
  const held = [await from("192.0.2.1"), await from("192.0.2.1")];
  expect(held.map(({ status }) => status)).toEqual([101, 101]);
  expect((await from("203.0.113.1, 192.0.2.1")).status).toBe(429);
  expect((await from("192.0.2.2")).status).toBe(101);
  held[0]!.socket.destroy();
  await expect.poll(async () => (await from("192.0.2.1")).status).toBe(101);
});

test("connections count by the address that a function of the caller knows", async () => {
  const { port } = await serve({
    sluice: { clientAddress: ({ header }) => header("cf-connecting-ip") },
    ws: { connections: { perAddress: 1 } },
  });
  const from = (address: string) => rawSocket(port, { headers: { "cf-connecting-ip": address } });
  expect((await from("192.0.2.1")).status).toBe(101);
  expect((await from("192.0.2.1")).status).toBe(429);
  expect((await from("192.0.2.2")).status).toBe(101);
});

test("the bytes that answers of a connection hold are given back once, whatever happens to it", () => {
  const account = createByteAccount(1_000);
  const answers = new SentAnswers();
  const hold = (id: number): void => {
    const lease = account.open();
    lease.add(100);
    answers.onSent(id, () => lease.release());
  };
  hold(1);
  hold(2);
  hold(2);
  hold(3);
  const sent = answers.sending(2);
  expect(account.bytes).toBe(400);
  sent();
  sent();
  expect(account.bytes).toBe(200);
  answers.sending(9)();
  const late = answers.sending(1);
  answers.close();
  expect(account.bytes).toBe(100);
  late();
  hold(4);
  expect(account.bytes).toBe(0);
});
