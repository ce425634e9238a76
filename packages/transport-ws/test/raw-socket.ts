import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { deferred } from "./deferred.ts";

/** A frame as it came. */
interface Frame {
  readonly opcode: number;
  readonly payload: Buffer;
}

/** One end of a WebSocket without any library, for bytes that no library would send. */
export interface RawSocket {
  /** Status and headers of the answer to the upgrade. */
  readonly status: number;
  readonly head: string;
  readonly body: string;
  readonly socket: Socket;
  write(data: Buffer): void;
  text(data: string | object): void;
  /** The next frame; rejects when the connection ends first. */
  next(): Promise<Frame>;
  /** The next text frame as JSON. */
  json(): Promise<Record<string, unknown>>;
  /** Reads until the close frame and gives its code, 1005 for none in it, 1006 without such a frame. */
  closed(): Promise<number>;
}

export const opcodes = { text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** A masked frame, as clients send them. */
export function frame(
  opcode: number,
  data: string | Buffer,
  { fin = true, masked = true, reserved = 0 } = {},
): Buffer {
  const payload = Buffer.from(data);
  const mask = masked ? randomBytes(4) : Buffer.alloc(0);
  const first = Buffer.from([(fin ? 0x80 : 0) | (reserved << 4) | opcode]);
  const flag = masked ? 0x80 : 0;
  const long = Buffer.alloc(payload.length < 126 ? 1 : payload.length < 65_536 ? 3 : 9);
  if (long.length === 1) long[0] = flag | payload.length;
  else if (long.length === 3) {
    long[0] = flag | 126;
    long.writeUInt16BE(payload.length, 1);
  } else {
    long[0] = flag | 127;
    long.writeBigUInt64BE(BigInt(payload.length), 1);
  }
  const body = masked ? payload.map((byte, at) => byte ^ mask[at % 4]!) : payload;
  return Buffer.concat([first, long, mask, body]);
}

/** Other headers of an upgrade request; `undefined` leaves one out. */
export interface UpgradeOptions {
  readonly path?: string;
  /** Of HTTP; 1.1. */
  readonly version?: string;
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

/** An upgrade request as text. */
export function upgradeText(
  port: number,
  { path = "/mcp", version = "1.1", headers }: UpgradeOptions,
): string {
  const fields = Object.entries({
    host: `127.0.0.1:${port}`,
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": randomBytes(16).toString("base64"),
    "sec-websocket-protocol": "mcp",
    ...headers,
  });
  const lines = fields.flatMap(([name, value]) =>
    value === undefined ? [] : `${name}: ${value}\r\n`,
  );
  return `GET ${path} HTTP/${version}\r\n${lines.join("")}\r\n`;
}

/** Sends an upgrade request and reads its answer. */
export async function rawSocket(port: number, options: UpgradeOptions = {}): Promise<RawSocket> {
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  let received = Buffer.alloc(0);
  let ended = false;
  let wake = deferred();
  socket.on("data", (chunk) => {
    received = Buffer.concat([received, chunk]);
    wake.resolve();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    ended = true;
    wake.resolve();
  });
  socket.write(upgradeText(port, options));

  /** Waits until `take` gives something; `undefined` when the connection ended before. */
  async function until<Value>(take: () => Value | undefined): Promise<Value | undefined> {
    for (;;) {
      const value = take();
      if (value !== undefined || ended) return value;
      wake = deferred();
      await wake.promise;
    }
  }

  function takeFrame(): Frame | undefined {
    if (received.length < 2) return undefined;
    const short = received[1]! & 127;
    const at = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (received.length < at) return undefined;
    const length =
      short < 126
        ? short
        : at === 4
          ? received.readUInt16BE(2)
          : Number(received.readBigUInt64BE(2));
    if (received.length < at + length) return undefined;
    const taken = { opcode: received[0]! & 15, payload: received.subarray(at, at + length) };
    received = received.subarray(at + length);
    return taken;
  }

  const head = await until(() => {
    const end = received.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const text = received.subarray(0, end).toString();
    received = received.subarray(end + 4);
    return text;
  });
  const status = Number(head?.split(" ")[1] ?? 0);
  const length = Number(/^content-length: (\d+)$/im.exec(head ?? "")?.[1] ?? Infinity);
  if (status !== 101) await until(() => (received.length >= length ? received : undefined));

  async function next(): Promise<Frame> {
    const taken = await until(takeFrame);
    if (!taken) throw new Error("the connection ended");
    return taken;
  }
  return {
    status,
    head: head ?? "",
    body: status === 101 ? "" : received.toString(),
    socket,
    write: (data) => void socket.write(data),
    text: (data) =>
      void socket.write(
        frame(opcodes.text, typeof data === "string" ? data : JSON.stringify(data)),
      ),
    next,
    async json() {
      const { opcode, payload } = await next();
      if (opcode !== opcodes.text) throw new Error(`frame ${opcode} ${payload.toString("hex")}`);
      return JSON.parse(payload.toString()) as Record<string, unknown>;
    },
    async closed() {
      for (;;) {
        const taken = await until(takeFrame);
        if (!taken) return 1006;
        if (taken.opcode === opcodes.close)
          return taken.payload.length < 2 ? 1005 : taken.payload.readUInt16BE(0);
      }
    },
  };
}

/** The first message of a client of the legacy era. */
export const initialize = {
  jsonrpc: "2.0",
  id: "open",
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "raw", version: "1" },
  },
} as const;

export const ping = { jsonrpc: "2.0", id: "ping", method: "ping" } as const;
