import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import {
  encodeStreamId,
  type Inbox,
  type IncomingStream,
  type OutgoingStream,
} from "@sluice/binary-transfer/internal";
import { expect, onTestFinished, test, vi } from "vitest";
import type { WebSocket } from "ws";
import { FrameInlet } from "../src/binary/frame-inlet.ts";
import { FrameOutlet } from "../src/binary/frame-outlet.ts";
import { ServerChannel } from "../src/server/server-channel.ts";
import { openWebSocket } from "../src/client/web-socket.ts";

function fakeClock(): void {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
}

/** A connection whose network takes a message when the test says so, and of its bytes what `connection` says. */
async function meet() {
  fakeClock();
  const taken: ((error?: Error) => void)[] = [];
  const connection = { bytesWritten: 0, writableLength: 0 };
  const socket = Object.assign(new EventEmitter(), {
    readyState: 1,
    OPEN: 1,
    bufferedAmount: 0,
    send(...args: unknown[]) {
      const [data] = args as [string];
      connection.writableLength += data.length;
      connection.bytesWritten += data.length;
      taken.push((error) => {
        connection.writableLength -= data.length;
        (args.at(-1) as (error?: Error) => void)(error);
      });
    },
    terminate: vi.fn<() => void>(() => {
      socket.readyState = 3;
      for (const done of taken.splice(0)) done(new Error("gone"));
      socket.emit("close");
    }),
    close: vi.fn<() => void>(),
    pause() {},
    resume() {},
  });
  const request = { headers: {}, socket: connection as Socket };
  const channel = new ServerChannel(socket as unknown as WebSocket, request, {
    maxBufferedBytes: 2 ** 24,
    messageRate: { perSecond: 100, burst: 100 },
  });
  await channel.start();
  onTestFinished(() => void socket.emit("close"));
  return { channel, socket, taken };
}

const message = { jsonrpc: "2.0", method: "notifications/message", params: {} } as const;

test("drops a peer that reads nothing, even if it answers pings", async () => {
  const { channel, socket } = await meet();
  const sent = channel.send(message).catch(({ code }: { code: string }) => code);
  for (let n = 0; n < 44; n += 1) {
    await vi.advanceTimersByTimeAsync(1_000);
    socket.emit("pong");
  }
  expect(socket.terminate).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(16_000);
  expect(socket.terminate).toHaveBeenCalledTimes(1);
  expect(await sent).toBe("interrupted");
});

test("a peer that takes messages in drips is given up, one that takes 4 KiB a second of them is not", async () => {
  for (const seconds of [16, 60]) {
    const { channel, socket, taken } = await meet();
    const params = { text: "x".repeat(2 ** 16) };
    const sent = Array.from({ length: 17 }, () =>
      channel.send({ ...message, params }).catch(() => "given up"),
    );
    while (taken.length > 0 && socket.terminate.mock.calls.length === 0) {
      await vi.advanceTimersByTimeAsync(seconds * 1_000);
      taken.shift()?.();
    }
    expect(socket.terminate).toHaveBeenCalledTimes(seconds === 16 ? 0 : 1);
    expect(await sent.at(-1)).toBe(seconds === 16 ? undefined : "given up");
    vi.useRealTimers();
  }
});

test("a peer that takes what is sent is not, however long nothing is", async () => {
  const { channel, socket, taken } = await meet();
  for (let n = 0; n < 10; n += 1) {
    const sent = channel.send(message);
    await vi.advanceTimersByTimeAsync(10_000);
    taken.shift()!();
    await sent;
    await vi.advanceTimersByTimeAsync(20_000);
  }
  expect(socket.terminate).not.toHaveBeenCalled();
});

test.each([
  ["in drips is given up", 1, [["timeout"]]],
  ["as fast as 4 KiB a second is not", 40_960, []],
])("a receiver that grants credit %s", async (_how, bytes, givenUp) => {
  fakeClock();
  const streamId = crypto.randomUUID();
  const giveUp = vi.fn<(stream: unknown, reason: string) => void>();
  const outlet = new FrameOutlet({ send: async () => {}, giveUp }, 30_000);
  const size = 2 ** 20;
  const body: ReadableStream<Uint8Array> = new Response(new Uint8Array(size)).body!;
  const stream = {
    ref: { streamId, size, interleave: true },
    source: { body },
    end: () => {},
  } satisfies OutgoingStream;
  const added = outlet.add(stream, 65_536);
  for (let n = 0; n < 10; n += 1) {
    await vi.advanceTimersByTimeAsync(10_000);
    outlet.credit(streamId, bytes);
  }
  await vi.advanceTimersByTimeAsync(0);
  expect(giveUp.mock.calls.map(([, reason]) => [reason])).toEqual(givenUp);
  outlet.close(new Error("over"));
  await vi.advanceTimersByTimeAsync(30_000);
  await added;
});

test("a sender learns of a slow reader before it takes it for one that has stopped", () => {
  fakeClock();
  const streamId = crypto.randomUUID();
  const ref = { streamId, size: 10_000_000, interleave: true } as const;
  const arrival = { ref, queuedBytes: 0, write: () => {} } as unknown as IncomingStream;
  const credit = vi.fn<(streamId: string, bytes: number) => void>();
  const inlet = new FrameInlet({
    inbox: () => ({ begin: () => arrival }) as unknown as Inbox,
    windowBytes: 2 ** 20,
    canPause: () => true,
    control: { credit, abort() {} },
  });
  inlet.begin(ref);
  for (let n = 0; n < 3; n += 1) {
    void inlet.take(Buffer.concat([encodeStreamId(streamId), Buffer.alloc(1_000)]));
    inlet.onRead(streamId, 1_000);
    vi.advanceTimersByTime(3_000);
  }
  expect(credit.mock.calls).toEqual([[streamId, 3_000]]);
});

test.each([
  ["takes nothing is given up", () => 0, "timeout"],
  ["takes something now and then is not", () => 8_192, "sent"],
])("a server that %s, in a browser", async (_how, taken, outcome) => {
  fakeClock();
  const sockets: FakeSocket[] = [];
  class FakeSocket extends EventTarget {
    readonly protocol = "mcp";
    readyState = 1;
    binaryType = "";
    bufferedAmount = 0;
    constructor() {
      super();
      sockets.push(this);
    }
    send(data: Uint8Array): void {
      this.bufferedAmount += data.length;
    }
    close = vi.fn<(code: number) => void>(() => void (this.readyState = 3));
  }
  vi.stubGlobal("WebSocket", FakeSocket);
  onTestFinished(() => void vi.unstubAllGlobals());
  const events = { text() {}, binary() {}, closed() {} };
  const opening = openWebSocket(new URL("ws://h/mcp"), async () => undefined)(
    events,
    new AbortController().signal,
  );
  await vi.advanceTimersByTimeAsync(0);
  const socket = sockets[0]!;
  socket.dispatchEvent(new Event("open"));
  const port = await opening;
  const sent = port.sendBinary(new Uint8Array(120_000)).then(
    () => "sent",
    ({ code }: { code: string }) => code,
  );
  for (let second = 0; second < 40; second += 1) {
    await vi.advanceTimersByTimeAsync(1_000);
    socket.bufferedAmount = Math.max(0, socket.bufferedAmount - taken());
  }
  expect([await sent, socket.close.mock.calls.length]).toEqual([
    outcome,
    outcome === "sent" ? 0 : 1,
  ]);
});
