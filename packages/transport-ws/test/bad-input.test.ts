import type { McpServer } from "@modelcontextprotocol/server";
import { describe, expect, test } from "vitest";
import { frame, initialize, opcodes, ping, rawSocket, type RawSocket } from "./raw-socket.ts";
import { serve } from "./serve.ts";

const { text, binary } = opcodes;
const started = frame(text, "{", { fin: false });

/** The input, how the connection ends, and the JSON-RPC error sent before. */
const cases: readonly [string, Buffer | Buffer[], number, number?][] = [
  ["a binary frame", frame(binary, "{}"), 1003],
  ["text that is not JSON", frame(text, "{nope"), 1007, -32700],
  [
    "JSON nested deeper than 128 levels",
    frame(
      text,
      JSON.stringify(ping).replace("}", `,"params":{"a":${"[".repeat(127)}${"]".repeat(127)}}}`),
    ),
    1007,
    -32700,
  ],
  ["an empty text frame", frame(text, ""), 1007, -32700],
  ["a batch", frame(text, JSON.stringify([ping])), 1008, -32600],
  ["an empty batch", frame(text, "[]"), 1008, -32600],
  ["JSON that is no JSON-RPC", frame(text, '{"method":"ping","id":1}'), 1008, -32600],
  [
    "a request with null for an id",
    frame(text, '{"jsonrpc":"2.0","id":null,"method":"ping"}'),
    1008,
    -32600,
  ],
  [
    "params that are a list",
    frame(text, '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}'),
    1008,
    -32600,
  ],
  ["text that is not UTF-8", frame(text, Buffer.from([0x22, 0xc3, 0x28, 0x22])), 1007],
  ["a lone surrogate in UTF-8", frame(text, Buffer.from([0xed, 0xa0, 0x80])), 1007],
  ["a message over the limit", frame(text, Buffer.alloc(70_000, 0x20)), 1009],
  [
    "fragments that are together over the limit",
    [frame(text, Buffer.alloc(60_000, 0x20), { fin: false }), frame(0, Buffer.alloc(60_000, 0x20))],
    1009,
  ],
  ["a length that no memory has", Buffer.from("81ff7fffffffffffffff00000000", "hex"), 1009],
  ["a fragmented ping", frame(opcodes.ping, "a", { fin: false }), 1002],
  ["a fragmented close", frame(opcodes.close, "", { fin: false }), 1002],
  ["a control frame of 126 bytes", frame(opcodes.ping, Buffer.alloc(126)), 1002],
  ["a continuation of nothing", frame(0, "a"), 1002],
  ["a message within a message", [started, frame(text, "{}")], 1002],
  ["a frame without a mask", frame(text, "{}", { masked: false }), 1002],
  ["a reserved bit", frame(text, "{}", { reserved: 4 }), 1002],
  ["compression that was not negotiated", frame(text, "{}", { reserved: 4 }), 1002],
  ["an unknown opcode", frame(3, "{}"), 1002],
  [
    "a close with a code that no peer may send",
    frame(opcodes.close, Buffer.from([0x03, 0xed])),
    1002,
  ],
  ["a close with half a code", frame(opcodes.close, "a"), 1002],
  [
    "a close with a reason that is not UTF-8",
    frame(opcodes.close, Buffer.from([0x03, 0xe8, 0xff])),
    1007,
  ],
];

describe("bad input", () => {
  test.each(cases)(
    "%s ends its connection with the right code, and no other",
    async (_name, sent, code, error) => {
      const { port, handler, errors } = await serve({ ws: { maxMessageBytes: 65_536 } });
      const other = await rawSocket(port);
      other.text(initialize);
      await other.json();

      const bad = await rawSocket(port);
      for (const each of [sent].flat()) bad.write(each);
      const said =
        error === undefined
          ? undefined
          : ((await bad.json()) as { id: unknown; error: { code: number } });
      expect([said?.id, said?.error.code]).toEqual([error && null, error]);
      expect(await bad.closed()).toBe(code);

      other.text(ping);
      expect(await other.json()).toEqual({ jsonrpc: "2.0", id: "ping", result: {} });
      bad.socket.destroy();
      await expect.poll(() => handler.connections).toBe(1);
      expect(errors).toEqual([]);
    },
  );

  test("messages after bad input are not looked at", async () => {
    let calls = 0;
    const { port } = await serve({
      register: (mcp) =>
        void mcp.registerTool("count", {}, () => {
          calls += 1;
          return { content: [] };
        }),
    });
    const socket = await rawSocket(port);
    socket.text(initialize);
    await socket.json();
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "count" } };
    const said = frame(text, JSON.stringify(call));
    socket.write(Buffer.concat([said, frame(binary, ""), said, said]));
    expect(await socket.closed()).toBe(1003);
    expect(calls).toBe(1);
  });

  test("control frames between the fragments of a message are answered, and harm nothing", async () => {
    const { port } = await serve();
    const socket = await rawSocket(port);
    const whole = Buffer.from(JSON.stringify(initialize));
    socket.write(frame(text, whole.subarray(0, 20), { fin: false }));
    socket.write(frame(opcodes.ping, "still here"));
    socket.write(frame(0, whole.subarray(20)));
    const pong = await socket.next();
    expect([pong.opcode, pong.payload.toString()]).toEqual([opcodes.pong, "still here"]);
    expect(await socket.json()).toMatchObject({ id: "open", result: {} });
  });

  test("random frames end no process", async () => {
    const { port, errors } = await serve();
    let seed = 7;
    const random = (most: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return seed % most;
    };
    const sockets: RawSocket[] = [];
    for (let round = 0; round < (process.env["SLUICE_DEEP"] ? 2_000 : 60); round += 1) {
      const socket = await rawSocket(port);
      const noise = Buffer.from(Array.from({ length: random(200) }, () => random(256)));
      socket.write(random(2) === 0 ? noise : frame(random(16), noise, { fin: random(2) === 0 }));
      socket.socket.end();
      sockets.push(socket);
    }
    for (const socket of sockets) expect(await socket.closed()).toBeGreaterThan(1_000);
    const after = await rawSocket(port);
    after.text(initialize);
    expect(await after.json()).toMatchObject({ id: "open" });
    expect(errors).toEqual([]);
  });
});

const stray = { jsonrpc: "2.0", id: 99, result: {} } as const;

test("a response to no request is reported by the handler if it comes first", async () => {
  const { port, errors } = await serve();
  const raw = await rawSocket(port);
  raw.text(stray);
  raw.text(initialize);
  expect(await raw.json()).toMatchObject({ id: initialize.id, result: {} });
  expect(errors.map(String)).toEqual([expect.stringContaining("JSON-RPC response")]);
  raw.socket.destroy();
});

test("a response to no request is reported by the server of the connection", async () => {
  const faults: string[] = [];
  const register = ({ server }: McpServer): void => {
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK has properties only
    server.onerror = ({ message }) => void faults.push(message);
  };
  const { port } = await serve({ register });
  const raw = await rawSocket(port);
  raw.text(initialize);
  await raw.json();
  raw.text(stray);
  raw.text(ping);
  expect(await raw.json()).toMatchObject({ id: ping.id, result: {} });
  expect(faults).toEqual([expect.stringContaining("unknown message ID")]);
  raw.socket.destroy();
});
