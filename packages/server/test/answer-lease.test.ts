import { SdkError, SdkErrorCode, type ServerContext } from "@modelcontextprotocol/server";
import { noteRequest } from "@sluice/server/internal";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { AnswerLeases } from "../src/calls/answer-lease.ts";
import { createByteAccount } from "../src/limits/byte-account.ts";
import { createStreamLimiter } from "../src/limits/stream-limiter.ts";

const principal = (subject: string) => ({ issuer: "", subject, clientId: "" });

/** A server's counters, and a transport that says when an answer is sent. */
const wide = { perPrincipal: Infinity, perAddress: undefined, perProcess: Infinity };

function meet(limits = {}) {
  let places = 0;
  const limiter = createStreamLimiter(
    { ...wide, perPrincipal: 100 },
    (change) => void (places += change),
  );
  const leases = new AnswerLeases(limiter, { ...wide, ...limits });
  const kept: (() => void)[] = [];
  let isClosed = false;
  const call = (keeps: boolean) => {
    const cancelled = new AbortController();
    const request = new Request("http://localhost/mcp");
    if (keeps)
      noteRequest(request, {
        sentListener: {
          onSent: (_id, release) => void (isClosed ? release() : kept.push(release)),
        },
      });
    const mcpReq = { id: 1, signal: cancelled.signal };
    return { cancelled, ctx: { mcpReq, http: { req: request } } as unknown as ServerContext };
  };
  const close = (): void => {
    isClosed = true;
    for (const release of kept.splice(0)) release();
  };
  return { leases, call, kept, close, places: () => places };
}

const who = { principal: principal("one"), address: undefined, mountLimiter: undefined };

test("a permit and its bytes are held until the answer is sent", async () => {
  const { leases, call, close, places } = meet({ perPrincipal: 10 });
  const { ctx } = call(true);
  await leases.hold({ ctx, ...who }, async (lease) => lease.add(8));
  expect(places()).toBe(1);
  const second = leases.hold({ ctx, ...who }, async (lease) => lease.add(8));
  await expect(second).rejects.toMatchObject({ code: "throttled", retryAfterMs: 1_000 });
  expect(places()).toBe(1);
  close();
  expect(places()).toBe(0);
  await leases.hold({ ctx, ...who }, async (lease) => lease.add(8));
});

test("with a transport that does not say when, they are held until the handler is done", async () => {
  const { leases, call, places } = meet({ perPrincipal: 10 });
  const { ctx } = call(false);
  for (let n = 0; n < 3; n++) {
    await leases.hold({ ctx, ...who }, async (lease) => lease.add(8));
    expect(places()).toBe(0);
  }
});

test("a request that is cancelled before its answer is sent gives them back, a transport that is done does not", async () => {
  const { leases, call, kept, places } = meet();
  const first = call(true);
  await leases.hold({ ctx: first.ctx, ...who }, async () => {});
  first.cancelled.abort("no longer needed");
  expect(places()).toBe(0);
  const second = call(true);
  await leases.hold({ ctx: second.ctx, ...who }, async () => {});
  second.cancelled.abort(new SdkError(SdkErrorCode.ConnectionClosed, "Connection closed"));
  expect(places()).toBe(1);
  for (const release of kept) release();
  expect(places()).toBe(0);
});

test("a caller without a principal takes from the share of its address where addresses have one", async () => {
  const { leases, call } = meet({ perAddress: 10, perProcess: 1_000 });
  const { ctx } = call(true);
  const from = (address: string | undefined) =>
    leases.hold({ ctx, principal: undefined, address, mountLimiter: undefined }, async (lease) =>
      lease.add(8),
    );
  await from("192.0.2.1");
  await expect(from("192.0.2.1")).rejects.toMatchObject({ code: "throttled" });
  await from("192.0.2.2");
  await from("2001:db8::1");
  await expect(from("2001:db8::2")).rejects.toMatchObject({ code: "throttled" });
  await from(undefined);
  await from(undefined);
});

test("the account of the process is full for everybody, and an answer alone may be larger", () => {
  const account = createByteAccount(10);
  const first = account.open();
  first.add(25);
  expect(() => account.open().add(1)).toThrow(expect.objectContaining({ code: "unavailable" }));
  expect(account.bytes).toBe(25);
  first.release();
  first.add(5);
  account.open().add(10);
  expect(account.bytes).toBe(10);
});

type Event = "done" | "failed" | "cancelled" | "closed" | "sent" | "sent again" | "server closed";
const events: readonly Event[] = [
  "done",
  "failed",
  "cancelled",
  "closed",
  "sent",
  "sent again",
  "server closed",
];

test(
  "each permit and byte is returned exactly once, in any order in which responses end",
  { tags: "slow" },
  async () => {
    const order = fc.array(fc.tuple(fc.nat({ max: 3 }), fc.constantFrom(...events)), {
      maxLength: 24,
    });
    await fc.assert(
      fc.asyncProperty(order, fc.boolean(), async (steps, keeps) => {
        const { leases, call, kept, close, places } = meet({
          perPrincipal: 4_000,
          perProcess: 4_000,
        });
        const makings = Array.from({ length: 4 }, () => {
          const { ctx, cancelled } = call(keeps);
          let settle: { resolve: () => void; reject: (error: Error) => void } | undefined;
          const made = new Promise<void>((resolve, reject) => void (settle = { resolve, reject }));
          const ended = leases
            .hold({ ctx, ...who }, async (lease) => {
              lease.add(1_000);
              await made;
              lease.sub(500);
            })
            .catch(() => {});
          return { cancelled, ended, ...settle! };
        });
        expect(places()).toBe(4);
        for (const [at, event] of steps) {
          const { cancelled, ended, resolve, reject } = makings[at]!;
          const before = places();
          if (event === "done") resolve();
          if (event === "failed") reject(new Error("broken"));
          if (event === "cancelled") cancelled.abort("enough");
          if (event === "server closed")
            cancelled.abort(new SdkError(SdkErrorCode.ConnectionClosed, "closed"));
          if (event === "closed") close();
          if (event === "sent" || event === "sent again") kept[at]?.();
          if (event === "done" || event === "failed") await ended;
          expect(places()).toBeLessThanOrEqual(before);
          expect(places()).toBeGreaterThanOrEqual(0);
        }
        for (const { resolve, ended } of makings) {
          resolve();
          await ended;
        }
        close();
        expect(places()).toBe(0);
        // nothing is left in the account: all of it can be had in two parts
        const second = (): Promise<void> =>
          leases.hold({ ctx: call(false).ctx, ...who }, async (lease) => lease.add(2_000));
        await leases.hold({ ctx: call(false).ctx, ...who }, async (lease) => {
          lease.add(2_000);
          await second();
        });
      }),
      { numRuns: process.env["SLUICE_DEEP"] === undefined ? 200 : 2_000 },
    );
  },
);
