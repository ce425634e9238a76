import { readFile } from "node:fs/promises";
import { context, metrics, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  CompositePropagator,
  W3CBaggagePropagator,
  W3CTraceContextPropagator,
} from "@opentelemetry/core";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from "@opentelemetry/sdk-trace-base";
import { SluiceError } from "@sluice/core";
import { createTelemetry } from "@sluice/server/telemetry";
import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { alice, as, bodyOf, createHouse, type House } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

class PulledReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

const exporter = new InMemorySpanExporter();
const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
let reader: PulledReader;

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(
    new CompositePropagator({
      propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()],
    }),
  );
});
afterAll(() => {
  context.disable();
  propagation.disable();
  trace.disable();
  metrics.disable();
});
beforeEach(() => exporter.reset());

const tracer = tracers.getTracer("test");
const storage = wrapBackend(createMemoryBackend({ "a.bin": "0123456789", "b.bin": "other" }), {
  describe: (describe_) => (key, options) =>
    tracer.startActiveSpan(`describe ${key}`, (span) =>
      describe_(key, options).finally(() => span.end()),
    ),
});

function createMeasuredHouse(): House {
  reader = new PulledReader();
  const meter = new MeterProvider({ readers: [reader] }).getMeter("test");
  return createHouse({
    storage,
    anonymous: true,
    principal: ({ header }) => (header("authorization") === undefined ? undefined : alice),
    links: {},
    telemetry: createTelemetry({ tracer, meter }),
    access: (_principal, uri) => (uri.includes("hidden") ? "hide" : "allow"),
  });
}

/** What a watch does for everybody begins with the call of whoever comes first. */
async function traceOfRescan(apart: boolean): Promise<string | undefined> {
  const seen: (string | undefined)[] = [];
  const watched = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
    describe: (describe_) => (key, options) => {
      seen.push(trace.getActiveSpan()?.spanContext().traceId);
      return describe_(key, options);
    },
  });
  const telemetry = createTelemetry({ tracer });
  const house = createHouse({
    storage: watched,
    telemetry: apart ? telemetry : { ...telemetry, runApart: (work) => work() },
  });
  const caller = {
    authInfo: undefined,
    sessionId: undefined,
    header: () => as(alice).authorization,
  };
  const notifications = { resourceSubscriptions: ["files://demo/a.bin"] };
  const listening = await house.sluice.host.listen({ id: 1, params: { notifications }, caller });
  // a watch that begins looks at everything that is followed
  await expect.poll(() => seen).toHaveLength(2);
  if ("close" in listening) listening.close();
  expect(seen[0]).toBeDefined();
  return seen[1];
}

test("a rescan belongs to no trace; negative control: to the one of the first subscriber", async () => {
  expect(await traceOfRescan(true)).toBeUndefined();
  expect(await traceOfRescan(false)).toBeDefined();
});

const spans = (name: string): ReadableSpan[] =>
  exporter.getFinishedSpans().filter((span) => span.name === name);

async function points(name: string): Promise<{ attributes: object; value: any }[]> {
  const { resourceMetrics } = await reader.collect();
  return resourceMetrics.scopeMetrics
    .flatMap((scope) => scope.metrics)
    .filter(({ descriptor }) => descriptor.name === name)
    .flatMap(({ dataPoints }) => dataPoints as { attributes: object; value: any }[]);
}

const traceId = "0af7651916cd43dd8448eb211c80319c";
const traceparent = `00-${traceId}-b7ad6b7169203331-01`;

describe.each(eras)("%s era", (era) => {
  test("a call belongs to the trace in its _meta, and storage to the call", async () => {
    const talk = talkTo(createMeasuredHouse().sluice);
    const params = {
      uri: "files://demo/a.bin",
      _meta: { traceparent, tracestate: "acme=1", baggage: "tenant=blue" },
    };
    const { slot } = await talk(era, "resources/stream", { params });
    await bodyOf(slot.reply!);
    const [call] = spans("resources/stream");
    expect(call?.spanContext().traceId).toBe(traceId);
    expect(call?.parentSpanContext).toMatchObject({ spanId: "b7ad6b7169203331", isRemote: true });
    expect(call?.spanContext().traceState?.get("acme")).toBe("1");
    expect(call?.attributes).toMatchObject({
      "mcp.method.name": "resources/stream",
      "mcp.resource.uri": "files://demo/a.bin",
      "sluice.revision": era,
      "sluice.outcome": "complete",
      "sluice.delivery.mode": "direct",
      "sluice.bytes": 10,
    });
    const [inner] = spans("describe a.bin");
    expect(inner?.parentSpanContext?.spanId).toBe(call?.spanContext().spanId);
  });

  test("without a trace in its _meta a call belongs to the span that is active; with one it is linked to it", async () => {
    const talk = talkTo(createMeasuredHouse().sluice);
    const ask = (meta: object) =>
      tracer.startActiveSpan("http", async (span) => {
        await talk(era, "resources/list", { params: { _meta: meta } });
        span.end();
        return span.spanContext();
      });
    const active = await ask({});
    const linked = await ask({ traceparent });
    const [plain, remote] = spans("resources/list");
    expect(plain?.parentSpanContext?.spanId).toBe(active.spanId);
    expect(remote?.spanContext().traceId).toBe(traceId);
    expect(remote?.links.map((link) => link.context.spanId)).toEqual([linked.spanId]);
  });

  test("a malformed trace context is ignored", async () => {
    const talk = talkTo(createMeasuredHouse().sluice);
    for (const bad of ["00-zz-zz-01", "", 7, { a: 1 }, "x".repeat(10_000)]) {
      const params = { uri: "files://demo/a.bin", _meta: { traceparent: bad, baggage: bad } };
      const { message } = await talk(era, "resources/read", { params });
      expect(message.error).toBeUndefined();
    }
    expect(spans("resources/read").every((span) => !span.parentSpanContext)).toBe(true);
  });

  test("operators see what was hidden, which clients cannot tell from missing", async () => {
    const house = createMeasuredHouse();
    const talk = talkTo(house.sluice);
    for (const name of ["hidden", "gone"])
      await talk(era, "resources/read", { params: { uri: `files://demo/${name}` } });
    const types = (await points("mcp.server.operation.duration")).map(
      ({ attributes }) => (attributes as Record<string, unknown>)["error.type"],
    );
    expect(types).toEqual(["hidden", "not_found"]);
  });
});

test("metrics count operations, bytes and open streams, and hold nothing that a client chose", async () => {
  const house = createMeasuredHouse();
  const talk = talkTo(house.sluice);
  const { slot } = await talk("modern", "resources/stream", {
    params: { uri: "files://demo/a.bin" },
  });
  expect(await points("sluice.streams.active")).toMatchObject([{ value: 1 }]);
  await bodyOf(slot.reply!);
  expect(await points("sluice.streams.active")).toMatchObject([{ value: 0 }]);
  const { token } = house.seal("download", { key: "a.bin", principal: alice });
  await bodyOf(await house.redeem(token, { headers: as(alice) }));
  await house.redeem("nonsense-of-a-client");
  expect(await points("sluice.transfer.io")).toMatchObject([
    { value: 10, attributes: { "sluice.delivery.mode": "direct" } },
    { value: 10, attributes: { "sluice.delivery.mode": "downloadUrl" } },
  ]);
  expect(await points("sluice.download.duration")).toMatchObject([
    { value: { count: 1 }, attributes: { "sluice.outcome": "complete" } },
    { value: { count: 1 }, attributes: { "error.type": "not_found" } },
  ]);
  const { resourceMetrics } = await reader.collect();
  expect(JSON.stringify(resourceMetrics.scopeMetrics)).not.toMatch(/nonsense|a\.bin|alice/);
});

test("a download belongs to the active span, else to the trace in its headers, and shares an id with its record", async () => {
  const house = createMeasuredHouse();
  const { token, id } = house.seal("download", { key: "a.bin", principal: alice });
  const headers = { ...as(alice), traceparent };
  await bodyOf(await house.redeem(token, { headers }));
  const active = await tracer.startActiveSpan("http", async (span) => {
    await bodyOf(await house.redeem(token, { headers }));
    span.end();
    return span.spanContext();
  });
  const [remote, local] = spans("sluice.download");
  expect(remote?.spanContext().traceId).toBe(traceId);
  expect(local?.parentSpanContext?.spanId).toBe(active.spanId);
  expect(remote?.attributes).toMatchObject({
    "sluice.grant": id,
    "sluice.audit.id": house.records[0]?.id,
    "enduser.pseudo.id": house.records[0]?.principal,
  });
  expect(JSON.stringify(remote?.attributes)).not.toContain(token.slice(6, 18));
});

test("a fault is an error of the span; a refusal is not", async () => {
  const house = createMeasuredHouse();
  const broken = createHouse({
    telemetry: createTelemetry({ tracer }),
    storage: wrapBackend(createMemoryBackend(), {
      open: () => () => Promise.reject(new SluiceError("internal", "disk: broken")),
    }),
  });
  await house.redeem("nonsense");
  const { token } = broken.seal("download", { key: "a.bin", principal: alice });
  await broken.redeem(token, { headers: as(alice) });
  expect(spans("sluice.download").map(({ status }) => status.code)).toEqual([0, 2]);
});

test("without an SDK everything is done all the same", async () => {
  const house = createHouse({ telemetry: createTelemetry() });
  const { token } = house.seal("download", { key: "a.bin", principal: alice });
  expect(await bodyOf(await house.redeem(token, { headers: as(alice) }))).toBe("0123456789");
});

test("a resource that is listened to belongs to the trace of the request, and storage to that", async () => {
  const { sluice } = createMeasuredHouse();
  const params = { notifications: { resourceSubscriptions: ["files://demo/a.bin"] } };
  const _meta = { traceparent };
  const caller = { header: (name: string) => as(alice)[name] };
  const listening = await sluice.host.listen({ id: 1, params: { ...params, _meta }, caller });
  if ("close" in listening) listening.close();
  const [call] = spans("resources/subscribe");
  expect(call?.spanContext().traceId).toBe(traceId);
  expect(spans("describe a.bin")[0]?.parentSpanContext?.spanId).toBe(call?.spanContext().spanId);
});

test("a URI from a client is harmless and short from the start of a span", async () => {
  const begun: unknown[] = [];
  const onStart = (span: ReadableSpan): void =>
    void begun.push(span.attributes["mcp.resource.uri"]);
  const done = async (): Promise<void> => {};
  const spanProcessors = [{ onStart, onEnd() {}, forceFlush: done, shutdown: done }];
  const watched = new BasicTracerProvider({ spanProcessors }).getTracer("test");
  const house = createHouse({ telemetry: createTelemetry({ tracer: watched }) });
  const uri = `files://demo/\u2028${"x".repeat(5_000)}`;
  await talkTo(house.sluice)("legacy", "resources/stream", { params: { uri } });
  expect(begun).toEqual([`files://demo/%E2%80%A8${"x".repeat(5_000)}`.slice(0, 4_096)]);
});

test("docs/reference/telemetry.md names every span, metric and attribute that there is, and no other", async () => {
  const house = createMeasuredHouse();
  const talk = talkTo(house.sluice);
  await talk("modern", "resources/list");
  await talk("modern", "resources/templates/list");
  for (const name of ["a.bin", "hidden"])
    await talk("modern", "resources/read", { params: { uri: `files://demo/${name}` } });
  const { slot } = await talk("modern", "resources/stream", {
    params: { uri: "files://demo/a.bin" },
    authInfo: { token: "t", clientId: "c", scopes: [] },
    headers: as(alice),
  });
  await bodyOf(slot.reply!);
  const { token } = house.seal("download", { key: "a.bin", principal: alice });
  await bodyOf(await house.redeem(token, { headers: as(alice) }));
  const caller = { header: (name: string) => as(alice)[name] };
  await house.sluice.link("files://demo/a.bin", { caller });
  const { resourceMetrics } = await reader.collect();
  const found = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
  const used = new Set<string>([
    ...found.map(({ descriptor }) => descriptor.name),
    ...exporter
      .getFinishedSpans()
      .filter(({ name }) => !name.startsWith("describe"))
      .flatMap(({ name, attributes }) => [name, ...Object.keys(attributes)]),
    "resources/subscribe",
    "completion/complete",
    "sluice.upload",
    "sluice.upload.duration",
    // of spans that stand for many refusals
    "sluice.refusals",
    "client.address",
  ]);
  const page = await readFile(
    new URL("../../../docs/reference/telemetry.md", import.meta.url),
    "utf8",
  );
  const rows = page.split("\n").filter((line) => line.startsWith("| `"));
  const named = rows.flatMap((row) =>
    [...row.split("|")[1]!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!),
  );
  expect(named.toSorted()).toEqual([...used].toSorted());
});
