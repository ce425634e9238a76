import type { Socket } from "node:net";
import { PeerWatch } from "@sluice/core/internal";
import { ReaderWatch, type ReaderWatchOptions } from "@sluice/core/internal/node";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { KernelQueues } from "../src/sockets/kernel-queues.ts";

const kib = 1_024;
const mib = 1_024 * kib;
const minute = 60_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** How the bytes get from one program to the other. */
interface Way {
  /**
   * Bytes that the system of the server holds until they are acknowledged. It accepts more when a
   * third of it is free.
   */
  readonly sendBytes?: number;
  /** Bytes that the peer's system holds until its reader reads. It takes more when a third of it is free. */
  readonly receiveBytes?: number;
  /** Bytes that a proxy behind it holds, which reads again when a third of it is free. */
  readonly proxyBytes?: number;
  /** The report of the server's system. */
  readonly tells?: "everything" | "acknowledged" | "nothing";
  readonly isProxy?: boolean;
  /** Each how manieth time the system tells nothing, as tables do that change while they are read. */
  readonly gap?: number;
}

/** A connection whose reader reads this many bytes a second, of an answer without an end. */
function createConnection(way: Way) {
  const {
    sendBytes = 4 * mib,
    receiveBytes = 6 * mib,
    proxyBytes = 0,
    tells = "everything",
    gap = Infinity,
  } = way;
  const stores = [sendBytes, receiveBytes, proxyBytes].map((limit) => ({ limit, held: 0 }));
  const [send, receive, proxy] = stores as [Store, Store, Store];
  let accepted = 0;
  let isGone = false;
  let repeats = 0;
  let asked = 0;

  function pour(from: Store | undefined, to: Store): void {
    if (to.held > (to.limit * 2) / 3) return;
    const bytes = Math.min(to.limit - to.held, from?.held ?? Infinity);
    to.held += bytes;
    if (from) from.held -= bytes;
    else accepted += bytes;
  }
  function flow(): void {
    if (!isGone) {
      pour(receive, proxy);
      pour(send, receive);
    } else repeats += 1;
    pour(undefined, send);
  }

  const socket = {
    // a chunk waits at all times
    writableLength: 64 * kib,
    get bytesWritten() {
      return accepted + 64 * kib;
    },
  };
  return {
    socket: socket as Socket,
    read(bytes: number) {
      const last = proxyBytes > 0 ? proxy : receive;
      last.held = Math.max(0, last.held - bytes);
      for (let n = 0; n < stores.length; n += 1) flow();
    },
    vanish: () => void (isGone = true),
    async queues(): Promise<KernelQueues | undefined> {
      asked += 1;
      if (tells === "nothing" || asked % gap === 0) return undefined;
      const unread = tells === "everything" ? receive.held : undefined;
      return { unacknowledged: send.held, unread, isUnanswered: repeats > 0 };
    },
    get accepted() {
      return accepted;
    },
  };
}

interface Store {
  readonly limit: number;
  held: number;
}

type Connection = ReturnType<typeof createConnection>;

/** Lets a reader read for so long; gives the milliseconds after which it was given up. */
async function readFor(
  connection: Connection,
  { ms, rate, isLate }: { ms: number; rate: number; isLate: () => boolean },
): Promise<number | undefined> {
  for (let at = 0; at < ms; at += 500) {
    connection.read(rate / 2);
    await vi.advanceTimersByTimeAsync(500);
    if (isLate()) return at + 500;
  }
  return undefined;
}

function watch(connection: Connection, options: Partial<ReaderWatchOptions> = {}) {
  const onLate = vi.fn<() => void>();
  const reader = new ReaderWatch({ socket: () => connection.socket, onLate, ...options }, () =>
    connection.queues(),
  );
  connection.read(0);
  reader.begin();
  return () => onLate.mock.calls.length > 0;
}

const rates = [6_000, 20_000, 60_000, 100_000, 200_000];
const ways: readonly (readonly [string, Way])[] = [
  ["on this machine", {}],
  ["on this machine with buffers of 32 MiB", { receiveBytes: 32 * mib }],
  ["on this machine whose tables have gaps", { gap: 5 }],
  ["on another machine", { tells: "acknowledged" }],
  ["behind a proxy on this machine", { proxyBytes: 4 * mib, isProxy: true }],
  ["behind a proxy elsewhere", { proxyBytes: 4 * mib, tells: "acknowledged" }],
  ["of which the system tells nothing", { tells: "nothing" }],
];

for (const [where, way] of ways) {
  test.each(rates)(
    `a reader ${where} that reads %i bytes a second is kept for an hour`,
    async (rate) => {
      const connection = createConnection(way);
      const isLate = watch(connection, { isProxy: way.isProxy ?? false });
      expect(await readFor(connection, { ms: 60 * minute, rate, isLate })).toBeUndefined();
    },
  );

  test(`a reader ${where} that stops is given up`, async () => {
    const connection = createConnection(way);
    const isLate = watch(connection, { isProxy: way.isProxy ?? false });
    expect(await readFor(connection, { ms: 5 * minute, rate: 1_000_000, isLate })).toBeUndefined();
    const ms = await readFor(connection, { ms: 60 * minute, rate: 0, isLate });
    const isSeen = way.tells === undefined && !way.isProxy;
    // two looks around a gap do not count
    const soon = way.gap === undefined ? minute : 1.5 * minute;
    expect(ms).toBeLessThanOrEqual(isSeen ? soon : 30 * minute);
  });
}

test.each([0, 10, 3_900])(
  "a reader on this machine that reads %i bytes a second is given up, the first at the latest after a minute",
  async (rate) => {
    const connection = createConnection({});
    const isLate = watch(connection);
    const ms = await readFor(connection, { ms: 60 * minute, rate, isLate });
    expect(ms).toBeLessThanOrEqual(rate > 10 ? 20 * minute : minute);
  },
);

test("a reader elsewhere whose system is gone is given up after a minute", async () => {
  const connection = createConnection({ tells: "acknowledged" });
  const isLate = watch(connection);
  expect(await readFor(connection, { ms: 5 * minute, rate: 100_000, isLate })).toBeUndefined();
  connection.vanish();
  expect(await readFor(connection, { ms: 60 * minute, rate: 0, isLate })).toBeLessThanOrEqual(
    minute,
  );
});

test("time in which nothing waits is not the reader's", async () => {
  const connection = createConnection({});
  const idle = { writableLength: 0, bytesWritten: 0 } as Socket;
  let socket = idle;
  const onLate = vi.fn<() => void>();
  const reader = new ReaderWatch({ socket: () => socket, onLate }, () => connection.queues());
  reader.begin();
  await vi.advanceTimersByTimeAsync(60 * minute);
  expect(vi.getTimerCount()).toBe(0);
  socket = connection.socket;
  reader.begin();
  await vi.advanceTimersByTimeAsync(40_000);
  expect(onLate).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(20_000);
  expect(onLate).toHaveBeenCalledTimes(1);
  expect(vi.getTimerCount()).toBe(0);
});

test("a watch that believes what the system accepted gives good readers up", async () => {
  const connection = createConnection({});
  const onLate = vi.fn<() => void>();
  const twin = new PeerWatch({ onLate });
  let seen = 0;
  const isLate = (): boolean => {
    twin.moved(connection.accepted - seen);
    if (connection.accepted === seen) twin.begin();
    seen = connection.accepted;
    return onLate.mock.calls.length > 0;
  };
  expect(await readFor(connection, { ms: 60 * minute, rate: 20_000, isLate })).toBeLessThan(
    minute * 5,
  );
});
