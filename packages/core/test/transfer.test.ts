import {
  advanceTransfer,
  startTransfer,
  type Interruption,
  type Transfer,
  type TransferEvent,
} from "@sluice/core/internal";
import { describe, expect, test } from "vitest";

const authorized: TransferEvent = { type: "authorized", reusable: true };
const resumed: TransferEvent = { type: "resumed" };
const whole = (size: number, etag?: string): TransferEvent => ({
  type: "response",
  start: 0,
  size,
  ...(etag !== undefined && { etag }),
});
const rest = (start: number, size: number, etag: string): TransferEvent => ({
  type: "response",
  start,
  size,
  etag,
});
const received = (bytes: number): TransferEvent => ({ type: "received", bytes });
const interrupted = (reason: Interruption, random = 0): TransferEvent => ({
  type: "interrupted",
  reason,
  random,
});
const cut = interrupted({ kind: "network" });
const status = (code: number, retryAfterMs?: number): TransferEvent =>
  interrupted({
    kind: "status",
    status: code,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });

function after(...events: readonly TransferEvent[]): Transfer {
  return events.reduce(advanceTransfer, startTransfer());
}

/** The same answer again and again, recovering each time, until the transfer gives up. */
function outlasting(
  first: readonly TransferEvent[],
  answer: TransferEvent,
): { tries: number; end: Transfer } {
  let transfer = after(...first);
  for (let tries = 1; tries < 100; tries++) {
    transfer = advanceTransfer(transfer, answer);
    if (transfer.state === "failed") return { tries, end: transfer };
    transfer = advanceTransfer(transfer, resumed);
    if (transfer.state === "requested") transfer = advanceTransfer(transfer, authorized);
  }
  return { tries: Infinity, end: transfer };
}

describe("the way of a transfer", () => {
  test("requested, authorized, receiving, verifying, complete", () => {
    const events = [
      authorized,
      whole(10, '"a"'),
      received(4),
      received(6),
      { type: "ended" },
      { type: "verified" },
    ] as const;
    const states = events.map((_, n) => after(...events.slice(0, n + 1)).state);
    expect(states).toEqual([
      "authorized",
      "receiving",
      "receiving",
      "receiving",
      "verifying",
      "complete",
    ]);
    expect(after(...events)).toMatchObject({ receivedBytes: 10, size: 10, etag: '"a"' });
  });

  test("an empty object is complete too", () => {
    expect(after(authorized, whole(0), { type: "ended" }, { type: "verified" }).state).toBe(
      "complete",
    );
  });

  test("without a known size a clean end is the end", () => {
    expect(
      after(authorized, { type: "response", start: 0 }, received(7), { type: "ended" }).state,
    ).toBe("verifying");
  });

  test("a body that ends before the size is interrupted, not ended", () => {
    const short = after(authorized, whole(10, '"a"'), received(9), { type: "ended" });
    expect(short).toMatchObject({
      state: "interrupted",
      receivedBytes: 9,
      recovery: { action: "retry" },
    });
  });

  test("a body longer than its size breaks the protocol", () => {
    const long = after(authorized, whole(10, '"a"'), received(11));
    expect(long).toMatchObject({ state: "failed", failure: { code: "protocol" } });
  });

  test("final states ignore everything", () => {
    const ends = [
      after({ type: "cancelled" }),
      after({ type: "failed", code: "no_space" }),
      after(authorized, whole(0), { type: "ended" }, { type: "verified" }),
    ];
    for (const end of ends)
      for (const event of [authorized, received(1), cut, resumed, { type: "cancelled" } as const])
        expect(advanceTransfer(end, event)).toBe(end);
    expect(ends[1]).toMatchObject({ failure: { code: "no_space" } });
  });

  test("an event that cannot happen is the caller's mistake", () => {
    for (const event of [
      resumed,
      received(1),
      { type: "ended" },
      { type: "verified" },
      whole(1),
    ] as const)
      expect(() => after(event)).toThrow(TypeError);
    expect(() => after(authorized, authorized)).toThrow(TypeError);
    expect(() => after(cut, cut)).toThrow(TypeError);
    expect(() => after(authorized, whole(0), { type: "ended" }, cut)).toThrow(TypeError);
    for (const bytes of [-1, 0.5, Number.NaN, Infinity])
      expect(() => after(authorized, whole(1), received(bytes))).toThrow(RangeError);
  });

  test("a transfer can be cancelled in any active state", () => {
    for (const events of [
      [],
      [authorized],
      [authorized, whole(1)],
      [cut],
      [authorized, whole(0), { type: "ended" }],
    ] as const)
      expect(after(...(events as readonly TransferEvent[]), { type: "cancelled" }).state).toBe(
        "cancelled",
      );
  });

  test("advancing leaves the transfer as it was", () => {
    const before = Object.freeze(after(authorized, whole(10, '"a"'), received(4)));
    const copy = structuredClone(before);
    advanceTransfer(before, cut);
    expect(before).toEqual(copy);
  });
});

describe("going on", () => {
  const broken = [authorized, whole(100, '"a"'), received(40), cut, resumed] as const;

  test("the rest of the same version continues the kept bytes", () => {
    expect(after(...broken, rest(40, 100, '"a"'))).toMatchObject({
      state: "receiving",
      receivedBytes: 40,
    });
    expect(after(...broken, { type: "response", start: 40, etag: '"a"' })).toMatchObject({
      size: 100,
    });
  });

  test.each([
    ["another tag", rest(40, 100, '"b"')],
    ["no tag", { type: "response", start: 40, size: 100 } as const],
    ["another size", rest(40, 101, '"a"')],
    ["an earlier place", rest(39, 100, '"a"')],
    ["a later place", rest(41, 100, '"a"')],
  ])("a rest with %s is thrown away and the transfer begins again", (_, response) => {
    const restarted = after(...broken, response);
    expect(restarted).toMatchObject({
      state: "interrupted",
      receivedBytes: 0,
      recovery: { action: "restart", delayMs: 0, reason: { kind: "changed" } },
    });
    expect(restarted.etag).toBeUndefined();
    expect(restarted.size).toBeUndefined();
  });

  test("the whole object in place of the rest is taken from byte 0 on", () => {
    const again = after(...broken, whole(90, '"b"'));
    expect(again).toMatchObject({ state: "receiving", receivedBytes: 0, size: 90, etag: '"b"' });
    expect(again.tries.restarts).toBe(1);
    const untagged = after(...broken, { type: "response", start: 0 });
    expect(untagged.etag).toBeUndefined();
    expect(untagged.size).toBeUndefined();
  });

  test("a part in place of the whole object is not taken for it", () => {
    expect(after(authorized, rest(5, 100, '"a"'))).toMatchObject({
      state: "interrupted",
      receivedBytes: 0,
    });
  });

  test("nothing resumes without a strong tag", () => {
    const lost = after(authorized, whole(100), received(40), cut);
    expect(lost).toMatchObject({ receivedBytes: 0, recovery: { action: "restart" } });
  });

  test("bytes of an earlier transfer resume by the same rule", () => {
    const begun = startTransfer({ receivedBytes: 40, etag: '"a"', size: 100 });
    const asked = advanceTransfer(begun, authorized);
    expect(advanceTransfer(asked, rest(40, 100, '"a"'))).toMatchObject({ receivedBytes: 40 });
    expect(advanceTransfer(asked, rest(40, 100, '"b"'))).toMatchObject({ receivedBytes: 0 });
    expect(advanceTransfer(asked, whole(90, '"b"'))).toMatchObject({ receivedBytes: 0, size: 90 });
  });

  test("direct bytes without a URL are asked for again through resources/stream", () => {
    const direct = [
      { type: "authorized", reusable: false },
      whole(100, '"a"'),
      received(40),
      cut,
    ] as const;
    expect(after(...direct)).toMatchObject({
      receivedBytes: 40,
      recovery: { action: "reauthorize" },
    });
    expect(after(...direct, resumed).state).toBe("requested");
    const restarted = after(
      { type: "authorized", reusable: false },
      whole(100),
      received(40),
      cut,
      resumed,
    );
    expect(restarted.state).toBe("requested");
  });
});

describe("after an interruption", () => {
  test.each([
    [401, "refresh", 2, "unauthenticated"],
    [404, "reauthorize", 3, "not_found"],
    [410, "reauthorize", 3, "expired"],
    [412, "restart", 4, "precondition_failed"],
    [416, "restart", 4, "range_not_satisfiable"],
    [408, "retry", 6, "timeout"],
    [425, "retry", 6, "unavailable"],
    [429, "retry", 6, "throttled"],
    [500, "retry", 6, "unavailable"],
    [502, "retry", 6, "unavailable"],
    [503, "retry", 6, "unavailable"],
    [504, "retry", 6, "unavailable"],
  ])("status %d: %s, and at the %dth time a failure", (code, action, tries, failure) => {
    expect(after(authorized, status(code))).toMatchObject({ recovery: { action } });
    const outlasted = outlasting([authorized], status(code));
    expect(outlasted).toMatchObject({ tries, end: { failure: { code: failure } } });
  });

  test.each([
    [400, "protocol"],
    [403, "permission_denied"],
    [405, "protocol"],
    [406, "protocol"],
    [413, "too_large"],
    [421, "protocol"],
    [451, "protocol"],
    [501, "unavailable"],
    [304, "protocol"],
  ])("status %d fails at once", (code, failure) => {
    expect(after(authorized, status(code))).toMatchObject({
      state: "failed",
      failure: { code: failure },
    });
  });

  test("pauses double and spread over their upper half", () => {
    const pauses = [0, 0.999_999].map((random) => {
      let transfer = after(authorized);
      return Array.from({ length: 5 }, () => {
        transfer = advanceTransfer(transfer, interrupted({ kind: "network" }, random));
        const pause = transfer.state === "interrupted" ? transfer.recovery.delayMs : Number.NaN;
        transfer = advanceTransfer(transfer, resumed);
        return pause;
      });
    });
    expect(pauses).toEqual([
      [250, 500, 1_000, 2_000, 4_000],
      [500, 1_000, 2_000, 4_000, 8_000],
    ]);
  });

  test("the pause that the server asks for is never cut, and spread beyond its end", () => {
    for (const retryAfterMs of [0, 1_000, 60_000])
      for (const random of [0, 0.5, 0.999_999]) {
        let transfer = after(authorized);
        for (const mostMs of [500, 1_000, 2_000, 4_000, 8_000]) {
          const busy: Interruption = { kind: "status", status: 429, retryAfterMs };
          transfer = advanceTransfer(transfer, interrupted(busy, random));
          const delayMs = retryAfterMs + Math.round(mostMs * random);
          expect(transfer).toMatchObject({ recovery: { delayMs } });
          transfer = advanceTransfer(transfer, resumed);
        }
      }
  });

  test("the pause that the server asks for is kept up to a minute", () => {
    expect(after(authorized, status(503, 60_000))).toMatchObject({ recovery: { delayMs: 60_000 } });
    expect(after(authorized, status(429, 0))).toMatchObject({ recovery: { delayMs: 0 } });
    expect(after(authorized, status(429, 60_001))).toMatchObject({
      state: "failed",
      failure: { code: "throttled", retryAfterMs: 60_001 },
    });
  });

  test("64 KiB of progress renew every budget but that of restarts", () => {
    const size = 10_000_000;
    let transfer = after(authorized, status(412), resumed, whole(size, '"a"'));
    for (let n = 0; n < 50; n++) {
      transfer = [
        received(65_536),
        cut,
        resumed,
        status(401),
        resumed,
        status(404),
        resumed,
        authorized,
      ].reduce(advanceTransfer, transfer);
      transfer = advanceTransfer(transfer, rest(transfer.receivedBytes, size, '"a"'));
    }
    expect(transfer).toMatchObject({
      state: "receiving",
      receivedBytes: 50 * 65_536,
      tries: { restarts: 1 },
    });
  });

  test("less progress than that renews nothing", () => {
    const size = 10_000_000;
    let transfer = after(authorized, whole(size, '"a"'));
    for (let n = 0; n < 5; n++)
      transfer = [received(10_000), cut, resumed, rest((n + 1) * 10_000, size, '"a"')].reduce(
        advanceTransfer,
        transfer,
      );
    expect([received(10_000), cut].reduce(advanceTransfer, transfer)).toMatchObject({
      state: "failed",
      failure: { code: "interrupted" },
    });
  });

  test("an object that never stays the same is given up", () => {
    let transfer = after(authorized);
    let responses = 0;
    while (transfer.state !== "failed" && responses < 100) {
      transfer = [whole(10_000_000, `"${responses++}"`), received(100_000), cut, resumed].reduce(
        advanceTransfer,
        transfer,
      );
    }
    expect(responses).toBe(5);
    expect(transfer).toMatchObject({ failure: { code: "precondition_failed" } });
  });

  test("a server without ranges is given up as a broken connection, not as a change", () => {
    let transfer = after(authorized);
    while (transfer.state !== "failed")
      transfer = [whole(10_000_000, '"v1"'), received(100_000), cut, resumed].reduce(
        advanceTransfer,
        transfer,
      );
    expect(transfer).toMatchObject({ failure: { code: "interrupted" } });
  });

  test("an object without a tag is fetched anew three times", () => {
    let transfer = after(authorized);
    let responses = 0;
    while (transfer.state !== "failed" && responses < 100) {
      responses++;
      transfer = [whole(10_000_000), received(100_000), cut, resumed].reduce(
        advanceTransfer,
        transfer,
      );
    }
    expect(responses).toBe(4);
    expect(transfer).toMatchObject({ failure: { code: "interrupted" } });
  });
});

test("an answer that contradicts its grant is asked for under two new ones, and the kept bytes stay", () => {
  const contradicted = interrupted({ kind: "contradicted" });
  const kept = [authorized, whole(100, '"v1"'), received(40), cut, resumed];
  expect(after(...kept, contradicted)).toMatchObject({
    state: "interrupted",
    recovery: { action: "reauthorize", delayMs: 0 },
    receivedBytes: 40,
  });
  expect(outlasting(kept, contradicted)).toMatchObject({
    tries: 3,
    end: { state: "failed", failure: { code: "interrupted" } },
  });
});
