import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { RequestBody, TakeChunk } from "@sluice/transport-http";
import { describe, expect, test } from "vitest";
import { createManualClock } from "../../storage/test/manual-clock.ts";
import { createBodyReader } from "../src/receive/body-reader.ts";
import { alice, startUploadServer } from "./upload-server.ts";

/** A body that a test sends piece by piece. */
function createManualBody(): RequestBody & {
  send(size: number): Promise<void> | undefined;
  end(): void;
} {
  let taker: TakeChunk | undefined;
  let finish = (): void => {};
  return {
    read: (take, signal) =>
      new Promise((resolve, reject) => {
        taker = take;
        finish = resolve;
        signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      }),
    send: (size) => taker!(new Uint8Array(size)),
    end: () => finish(),
  };
}

describe("a body", () => {
  const read = (take: TakeChunk = () => undefined, pace = {}) => {
    const clock = createManualClock();
    const body = createManualBody();
    let outcome = "open";
    const { signal } = new AbortController();
    void createBodyReader(pace, clock)({ body, signal }, take).then(
      () => (outcome = "read"),
      (error: { code: string }) => (outcome = error.code),
    );
    return { clock, body, outcome: () => outcome };
  };

  test("is dropped if it is silent for 15 seconds", async () => {
    const { clock, body, outcome } = read();
    await clock.advance(14_000);
    void body.send(100_000);
    await clock.advance(14_000);
    expect(outcome()).toBe("open");
    await clock.advance(2_000);
    expect(outcome()).toBe("timeout");
    expect(clock.waiting()).toBe(0);
  });

  test("is dropped if it dribbles, after a free window", async () => {
    const { clock, body, outcome } = read();
    for (let second = 0; second < 19; second++) {
      void body.send(8_000);
      await clock.advance(1_000);
    }
    expect(outcome()).toBe("open");
    await clock.advance(2_000);
    expect(outcome()).toBe("timeout");
  });

  test("is read to its end at the minimum rate, and for at most six hours", async () => {
    const { clock, body, outcome } = read();
    for (let second = 0; second < 60; second++) {
      void body.send(8_192);
      await clock.advance(1_000);
    }
    body.end();
    await clock.advance(0);
    expect([outcome(), clock.waiting()]).toEqual(["read", 0]);
    const endless = read(undefined, { totalMs: 5_000 });
    for (let second = 0; second < 6; second++) {
      void endless.body.send(100_000);
      await endless.clock.advance(1_000);
    }
    expect(endless.outcome()).toBe("timeout");
  });

  test("is not to blame for the time that storage takes", async () => {
    let goOn = (): void => {};
    const busy = new Promise<void>((resolve) => void (goOn = resolve));
    const { clock, body, outcome } = read(() => busy);
    void body.send(10);
    await clock.advance(60_000);
    expect(outcome()).toBe("open");
    goOn();
    await clock.advance(16_000);
    expect(outcome()).toBe("timeout");
  });
});

/** Opens a connection and sends a head for a body of the given length. */
async function openRaw(url: string, length: number, more = ""): Promise<Socket> {
  const { pathname, host, port } = new URL(url);
  const socket = connect(Number(port), "127.0.0.1");
  socket.setEncoding("latin1").on("error", () => {});
  await once(socket, "connect");
  socket.write(
    `PUT ${pathname} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${length}\r\n${more}Authorization: Bearer alice\r\n\r\n`,
  );
  return socket;
}

async function saidBy(socket: Socket): Promise<string> {
  let said = "";
  socket.on("data", (chunk: string) => void (said += chunk));
  await once(socket, "close");
  return said;
}

describe("over a connection", () => {
  test(
    "a slow body is answered with 408, and nothing of it is kept",
    { tags: "slow" },
    async () => {
      const server = await startUploadServer({ uploads: { pace: { idleMs: 150 } } });
      const socket = await openRaw((await server.slot()).url, 1_000);
      socket.write("abc");
      expect(await saidBy(socket)).toMatch(/^HTTP\/1\.1 408 [\s\S]*Connection: close/);
      await expect.poll(() => server.files()).toEqual([]);
    },
  );

  test.each([
    ["/mcp/uploads/", false],
    ["/mcp/u/", true],
  ])(
    "a client that waits for 100 Continue gets it after the checks only: %s",
    async (path, selfAuthenticating) => {
      const server = await startUploadServer();
      const expecting = "Expect: 100-continue\r\n";
      const slot = (maxBytes: number) =>
        server.uploads.reserve(
          alice,
          { accept: [], maxBytes, maxFiles: 1 },
          { selfAuthenticating },
        );
      const refused = await openRaw((await slot(10)).url, 1_000, expecting);
      expect(await saidBy(refused)).toMatch(/^HTTP\/1\.1 413 /);
      const { url } = await slot(1_000);
      expect(url).toContain(path);
      const taken = await openRaw(url, 3, expecting);
      const [first] = (await once(taken, "data")) as [string];
      expect(first).toBe("HTTP/1.1 100 Continue\r\n\r\n");
      taken.write("abc");
      const [answer] = (await once(taken, "data")) as [string];
      expect(answer).toMatch(/^HTTP\/1\.1 201 /);
      taken.destroy();
    },
  );

  test("a client that has sent up to a megabyte hears the refusal, and then the connection ends", async () => {
    const server = await startUploadServer();
    const socket = await openRaw((await server.slot({ maxBytes: 10 })).url, 900_000);
    socket.write(Buffer.alloc(900_000));
    expect(await saidBy(socket)).toMatch(/^HTTP\/1\.1 413 [\s\S]*Connection: close/);
    const endless = await openRaw((await server.slot({ maxBytes: 10 })).url, 10 ** 9);
    const said = saidBy(endless);
    const flood = (): void =>
      void (endless.writable && endless.write(Buffer.alloc(65_536)) && setImmediate(flood));
    endless.on("drain", flood);
    flood();
    expect(await said).toMatch(/^(HTTP\/1\.1 413 |$)/);
    expect(server.errors).toEqual([]);
  });

  test("lengths and codings that contradict each other go no further", async () => {
    const server = await startUploadServer();
    const socket = await openRaw((await server.slot()).url, 5, "Transfer-Encoding: chunked\r\n");
    expect(await saidBy(socket)).toMatch(/^HTTP\/1\.1 400 /);
    const trailing = await openRaw((await server.slot()).url, 3, "Trailer: Repr-Digest\r\n");
    trailing.write("abc");
    const [answer] = (await once(trailing, "data")) as [string];
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    trailing.destroy();
    expect(await server.files()).toEqual([]);
  });
});
