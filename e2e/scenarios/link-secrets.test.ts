// The token of a link is a secret: the trail, traces, logs, errors and the store tell of the link, and none of them has it.
import { inspect } from "node:util";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { SluiceError } from "@sluice/core";
import type { AuditRecord } from "@sluice/server";
import { createTelemetry } from "@sluice/server/telemetry";
import { type StateStore, createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { wrapBackend } from "@sluice/storage";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { linkTo, startLinkSite } from "../bed/links.ts";
import { send } from "../bed/raw.ts";
import type { Site } from "../bed/site.ts";

class PulledReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

const token = "alice-token";
const exporter = new InMemorySpanExporter();
const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
const reader = new PulledReader();
const meters = new MeterProvider({ readers: [reader] });

const records: AuditRecord[] = [];
/** What the server tells its operator, and what it answers. */
const told: unknown[] = [];
/** What the state store is given. */
const stored: unknown[] = [];

let site: Site;
let tokens: string[];
/** Of all answers. */
const statuses: unknown[] = [];

/** A store that notes what it is asked, as an operator could who reads its traffic. */
function noted(store: StateStore): StateStore {
  return new Proxy(store, {
    get(target, name: keyof StateStore) {
      const member: unknown = target[name];
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        stored.push(
          args.map((arg) => (arg instanceof Uint8Array ? Buffer.from(arg).toString() : arg)),
        );
        return (member as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
}

async function tries(
  url: string,
  headers: Record<string, string> = {},
  method: "GET" | "HEAD" = "GET",
) {
  const answer = await send(method, url, { headers }).catch((error: unknown) => error);
  told.push(
    answer instanceof Error
      ? answer
      : { ...(answer as object), bytes: String((answer as { bytes: Buffer }).bytes) },
  );
  return answer as { readonly status?: number };
}

beforeAll(async () => {
  for (const level of ["debug", "error", "info", "log", "warn"] as const)
    vi.spyOn(console, level).mockImplementation((...args) => void told.push(args));
  site = await startLinkSite({
    files: { "plans.bin": "secret plans", "broken.bin": "x".repeat(100_000) },
    accounts: { [token]: { subject: "alice" } },
    limitsGuesses: true,
    storage: (files) =>
      wrapBackend(files, {
        open: (open) => async (key, options) => {
          if (key !== "broken.bin") return open(key, options);
          throw new SluiceError("internal", "the disk is broken");
        },
      }),
    sluice: {
      audit: { sink: (record) => void records.push(record), addresses: true },
      telemetry: createTelemetry({
        tracer: tracers.getTracer("test"),
        meter: meters.getMeter("test"),
      }),
      stores: { ...createMemoryStores(), state: noted(createMemoryStateStore()) },
      onError: (error) => void told.push(error),
      onWarning: (warning) => void told.push(warning),
    },
  });
  const [plans, broken, revoked] = [
    await linkTo(site, "plans.bin", { token }),
    await linkTo(site, "broken.bin", { token }),
    await linkTo(site, "plans.bin", { token }),
  ].map(({ download_url: url }) => url) as [string, string, string];
  tokens = [plans, broken, revoked].map((url) => url.slice(url.lastIndexOf("/") + 1));
  await site.sluice.revoke({ token: tokens[2]! });
  for (const [url, headers] of [
    [plans, {}],
    [plans, { range: "bytes=2-3" }],
    [plans, { range: "bytes=99-" }],
    [plans, { "if-match": '"other"' }],
    [
      plans,
      { origin: "null", referer: plans, traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` },
    ],
    [broken, {}],
    [revoked, {}],
    [`${plans}A`, {}],
    [plans.replace("/d/", "/streams/"), {}],
    [plans.replace("/d/", "/d/x/"), {}],
    [`${plans}?token=${tokens[0]}`, {}],
  ] as const)
    statuses.push((await tries(url, headers)).status);
  await tries(plans, {}, "HEAD");
  const guesses = Array.from({ length: 30 }, (_, guess) => tries(`${plans}${guess}`));
  statuses.push(...(await Promise.all(guesses)).map(({ status }) => status));
  await site.sluice.close();
  vi.restoreAllMocks();
});
afterAll(async () => {
  await site?.[Symbol.asyncDispose]();
  await tracers.shutdown();
});

/** Whether a text has a token, or enough of one to be shorter than all others to guess. */
function leaks(text: string): boolean {
  return tokens.some((each) =>
    Array.from({ length: 5 }, (_, part) => each.slice(part * 5, part * 5 + 8)).some((piece) =>
      text.includes(piece),
    ),
  );
}

const shown = (value: unknown): string =>
  inspect(value, { depth: 12, maxArrayLength: null, maxStringLength: null });

test("links are opened in all ways that end differently", () => {
  expect(new Set(statuses)).toEqual(new Set([200, 206, 416, 412, 404, 500, 429]));
});

test("the trail has the making of a link and each of its redemptions under one id", () => {
  const issued = records.filter(({ action }) => action === "link");
  expect(issued.map(({ outcome, mode }) => [outcome, mode])).toEqual(
    issued.map(() => ["issued", "link"]),
  );
  expect(new Set(issued.map(({ grant }) => grant)).size).toBe(3);
  const ofFirst = records.filter(
    ({ grant, action }) => grant === issued[0]!.grant && action === "download",
  );
  expect(ofFirst.map(({ outcome }) => outcome)).toContain("complete");
  expect(ofFirst.length).toBeGreaterThanOrEqual(5);
  for (const { mode, principal, address, uri } of ofFirst)
    expect([mode, principal, address, uri]).toEqual([
      "link",
      issued[0]!.principal,
      "127.0.0.1",
      issued[0]!.uri,
    ]);
});

test("the trail, the traces and the metrics have no token", async () => {
  expect(records.length).toBeGreaterThan(10);
  expect(leaks(shown(records))).toBe(false);
  const spans = exporter.getFinishedSpans();
  expect(spans.length).toBeGreaterThan(10);
  for (const { name, attributes, events, status, links } of spans)
    expect(leaks(shown({ name, attributes, events, status, links })), name).toBe(false);
  const { resourceMetrics } = await reader.collect();
  expect(leaks(shown(resourceMetrics))).toBe(false);
});

test("answers, errors, warnings and the console have none", () => {
  expect(told.some((each) => each instanceof SluiceError)).toBe(true);
  for (const each of told) expect(leaks(shown(each)), shown(each)).toBe(false);
});

test("the state store gets none", () => {
  expect(stored.length).toBeGreaterThan(10);
  for (const each of stored) expect(leaks(shown(each)), shown(each)).toBe(false);
});

test("a token that is told is found", () => {
  expect(leaks(`GET /mcp/d/${tokens[1]} 404`)).toBe(true);
  expect(leaks(shown(new Error(`no ${tokens[0]!.slice(0, 20)}…`)))).toBe(true);
});
