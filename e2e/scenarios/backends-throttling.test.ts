// @module-tag slow
import type { Clock } from "@sluice/core/internal";
import { protectIn } from "@sluice/storage/internal";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createManualClock } from "../../packages/storage/test/manual-clock.ts";
import { startBackendSite, type BackendSite } from "../bed/backend-site.ts";
import { remoteNames, services, type Service } from "../bed/backends.ts";
import { bytesOf } from "../bed/content.ts";
import type { Exchange } from "../bed/meddler.ts";

const content = bytesOf(50_000, "busy");
const pauseMs = 6_000;

/** Both forms of the header (RFC 9110 §10.2.3); a date has whole seconds. */
const forms: Readonly<Record<string, () => string>> = {
  "in seconds": () => String(pauseMs / 1000),
  "as a date": () => new Date(Date.now() + pauseMs).toUTCString(),
};

/** Refuses the next request to the service's API; others pass. */
function refuseOne({ api }: Service, status: number, retryAfter: string): void {
  let refused = false;
  api.meddle = ({ answer, response }: Exchange) => {
    if (refused) return false;
    refused = true;
    answer.resume();
    response.writeHead(status, { "retry-after": retryAfter, "content-length": 0 }).end();
    return true;
  };
}

/** A clock that also writes down for how long it was asked to wait. */
function observe(clock: Clock, delays: number[]): Clock {
  return {
    now: () => clock.now(),
    schedule(callback, delayMs) {
      delays.push(delayMs);
      return clock.schedule(callback, delayMs);
    },
  };
}

/** Waits until there are so many pauses among the delays: deadlines are longer. */
const untilPauses = (delays: readonly number[], count: number): Promise<void> =>
  vi.waitFor(
    () =>
      expect(delays.filter((ms) => ms > pauseMs - 2_000 && ms < 2 * pauseMs)).toHaveLength(count),
    { timeout: 15_000 },
  );

describe.each(remoteNames)("%s", (name) => {
  const clock = createManualClock();
  const delays: number[] = [];
  let site: BackendSite;
  beforeAll(async () => {
    site = await startBackendSite(name, {
      storage: (backend) => protectIn(backend, { clock: observe(clock, delays), random: () => 0 }),
    });
    await site.service.put("busy.bin", content);
  });
  afterAll(() => site[Symbol.asyncDispose]());

  const cases = [429, 503].flatMap((status) =>
    Object.entries(forms).map(([form, retryAfter]) => ({ status, form, retryAfter })),
  );
  test.each(cases)(
    "one $status with Retry-After $form pauses everything once",
    async ({ status, retryAfter }) => {
      const { api, store } = site.service;
      const count = (): number => api.requests.length + (store === api ? 0 : store.requests.length);
      const before = count();
      delays.length = 0;
      refuseOne(site.service, status, retryAfter());
      const downloads = [site.download("busy.bin")];
      await untilPauses(delays, 1);
      downloads.push(...[1, 2, 3].map(() => site.download("busy.bin")));
      await untilPauses(delays, 4);
      // a date has lost up to a second to its rounding
      await clock.advance(pauseMs - 2_000);
      expect(count() - before).toBe(1);
      await clock.advance(2_000);
      for (const saved of await Promise.all(downloads)) expect(saved.equals(content)).toBe(true);
      expect(count() - before).toBeGreaterThan(4);
    },
  );
});

test.each(remoteNames)("%s: an abort ends the wait at once, with its reason", async (name) => {
  await using service = await services[name]();
  await service.put("busy.bin", content);
  const delays: number[] = [];
  const backend = protectIn(service.backend, { clock: observe(createManualClock(), delays) });
  refuseOne(service, 429, String(pauseMs / 1000));
  const reason = new Error("enough");
  const stop = new AbortController();
  const waiting = backend.describe("busy.bin", { signal: stop.signal });
  await untilPauses(delays, 1);
  stop.abort(reason);
  await expect(waiting).rejects.toBe(reason);
});
