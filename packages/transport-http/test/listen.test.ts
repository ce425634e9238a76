import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice, type AuditRecord, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { expect, test, vi } from "vitest";
import { mergeEvents } from "../src/events/merge-events.ts";

const endpoint = "http://127.0.0.1:9/mcp";
const base = "files://demo/";
const uris = ["a.txt", "hidden.txt", "missing.txt"].map((name) => base + name);

function house(options: Partial<SluiceOptions> = {}) {
  const memory = createMemoryBackend({ "a.txt": "1", "hidden.txt": "1" });
  let watches = 0;
  const storage = wrapBackend(memory, {
    watch: (watch) =>
      async function* (watchOptions) {
        watches++;
        try {
          yield* watch(watchOptions);
        } finally {
          watches--;
        }
      },
  });
  const sluice = createSluice({
    storage,
    baseUri: base,
    endpoint,
    keys: [generateKey()],
    access: (_who, uri) => (uri.includes("hidden") ? "hide" : "allow"),
    onWarning: () => {},
    ...options,
  } as SluiceOptions);
  const mcp = createMcpHandler(() => sluice.attach(new McpServer({ name: "x", version: "1" })));
  const handler = withSluice(mcp, sluice);

  async function listen(notifications: unknown) {
    const gone = new AbortController();
    const response = await handler.fetch(
      new Request(endpoint, {
        method: "POST",
        signal: gone.signal,
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": "subscriptions/listen",
        },
        body: JSON.stringify({
          jsonrpc: "2.0",
          id: 7,
          method: "subscriptions/listen",
          params: {
            notifications,
            _meta: {
              "io.modelcontextprotocol/protocolVersion": "2026-07-28",
              "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
              "io.modelcontextprotocol/clientCapabilities": {},
            },
          },
        }),
      }),
    );
    const reader = response.body!.getReader();
    const decoder = new TextDecoder();
    let text = "";
    /** The next message of the stream; `undefined` at its end. */
    const next = async (): Promise<any> => {
      for (;;) {
        const end = text.indexOf("\n\n");
        if (end >= 0) {
          const event = text.slice(0, end);
          text = text.slice(end + 2);
          const data = /^data: (.*)$/m.exec(event)?.[1];
          if (data !== undefined) return JSON.parse(data);
          continue;
        }
        const { done, value } = await reader.read();
        if (done) return undefined;
        text += decoder.decode(value, { stream: true });
      }
    };
    return { response, next, cancel: () => reader.cancel(), abort: () => gone.abort() };
  }
  const isWatched = () => expect.poll(() => watches).toBe(1);
  return { memory, mcp, listen, isWatched, watches: () => watches };
}

const idOf = (message: any): unknown =>
  message.params._meta["io.modelcontextprotocol/subscriptionId"];

test("a listener is told what it may follow, and what changes of that [MCP/listen/must-acknowledge] [MCP/listen/must-filter] [MCP/listen/must-stamp]", async () => {
  const { memory, listen, isWatched } = house();
  const { next, cancel } = await listen({ resourceSubscriptions: [...uris, "app://own"] });
  const acknowledged = await next();
  expect(acknowledged).toMatchObject({
    method: "notifications/subscriptions/acknowledged",
    params: { notifications: { resourceSubscriptions: [uris[0], "app://own"] } },
  });
  expect(idOf(acknowledged)).toBe(7);
  await isWatched();
  memory.put("hidden.txt", "2");
  memory.put("new.txt", "1");
  memory.put("a.txt", "2");
  const message = await next();
  expect(message).toMatchObject({
    jsonrpc: "2.0",
    method: "notifications/resources/updated",
    params: { uri: uris[0] },
  });
  expect(idOf(message)).toBe(7);
  // what was not asked for would wait in front of the next change
  memory.put("a.txt", "3");
  expect(await next()).toMatchObject({ params: { uri: uris[0] } });
  await cancel();
});

test("a client that asked for lists hears of new objects, and the author's own events still come [MCP/listen/must-stamp]", async () => {
  const { memory, mcp, listen, isWatched } = house();
  const { next, cancel } = await listen({ resourcesListChanged: true, toolsListChanged: true });
  await next();
  await isWatched();
  memory.put("new.txt", "1");
  const ours = await next();
  mcp.notify.resourcesChanged();
  const authors = await next();
  for (const message of [ours, authors]) {
    expect(message).toMatchObject({ method: "notifications/resources/list_changed" });
    expect(idOf(message)).toBe(7);
  }
  await cancel();
});

test("a listener that was refused for one resource follows none of the others", async () => {
  const answers: (() => void)[] = [];
  const storage = wrapBackend(createMemoryBackend({ "a.txt": "1" }), {
    describe: (describe) => async (key, options) => {
      if (key !== "a.txt") throw new Error("disk broken");
      await new Promise<void>((resolve) => answers.push(resolve));
      return describe(key, options);
    },
  });
  const records: AuditRecord[] = [];
  const watch = vi.spyOn(storage, "watch");
  const audit = (record: AuditRecord): void => void records.push(record);
  const { listen } = house({ storage, audit, onError: () => {} });
  const { response } = await listen({ resourceSubscriptions: [base + "broken.txt", uris[0]] });
  expect(response.headers.get("content-type")).toContain("json");
  answers[0]!();
  await expect.poll(() => records).toHaveLength(2);
  expect(records[1]).toMatchObject({ uri: uris[0], outcome: "failed" });
  expect(watch).not.toHaveBeenCalled();
});

test("resources beyond the first 1,000 are not even looked at", { tags: "slow" }, async () => {
  let looks = 0;
  const storage = wrapBackend(createMemoryBackend({}), {
    describe: (describe) => (key, options) => {
      looks++;
      return describe(key, options);
    },
  });
  const many = Array.from({ length: 1_100 }, (_, n) => base + n);
  const { next, cancel } = await house({ storage }).listen({ resourceSubscriptions: many });
  expect((await next()).params.notifications.resourceSubscriptions ?? []).toEqual([]);
  expect(looks).toBe(1_000);
  await cancel();
});

test("changes during a pause of the reader are reported once", async () => {
  const { memory, listen, isWatched } = house();
  const { next, cancel } = await listen({ resourceSubscriptions: uris });
  await next();
  await isWatched();
  const first = next();
  for (let n = 0; n < 1_000; n++) memory.put("a.txt", String(n));
  expect(await first).toMatchObject({ params: { uri: uris[0] } });
  memory.put("a.txt", "last");
  expect(await next()).toMatchObject({ params: { uri: uris[0] } });
  await cancel();
});

test.each(["cancel", "abort"] as const)(
  "nothing is left when a listener goes by %s",
  async (how) => {
    const { listen, isWatched, watches } = house();
    const listening = await listen({ resourceSubscriptions: uris });
    await listening.next();
    await isWatched();
    const pending = listening.next().catch(() => undefined);
    await listening[how]();
    expect(await pending).toBeUndefined();
    await expect.poll(() => watches()).toBe(0);
  },
);

test("nothing is left when a listener goes before its stream is read", async () => {
  const { listen, isWatched, watches } = house();
  const { abort } = await listen({ resourceSubscriptions: uris });
  await isWatched();
  abort();
  await expect.poll(() => watches()).toBe(0);
});

test("nothing is left when the handler closes, and the stream ends as the SDK ends it [MCP/listen/must-close]", async () => {
  const { mcp, listen, isWatched, watches } = house();
  const { next } = await listen({ resourceSubscriptions: uris });
  await next();
  await isWatched();
  await mcp.close();
  expect(await next()).toMatchObject({ id: 7, result: {} });
  expect(await next()).toBeUndefined();
  await expect.poll(() => watches()).toBe(0);
});

test("a caller that may follow nothing gets the answer of an empty filter, and is not watched for", async () => {
  const { listen, watches } = house();
  const { next } = await listen({ resourceSubscriptions: uris.slice(1) });
  expect((await next()).params.notifications).toEqual({});
  expect(await next()).toMatchObject({ id: 7, result: {} });
  expect(await next()).toBeUndefined();
  expect(watches()).toBe(0);
});

test("the SDK refuses an invalid filter, we a caller without a principal", async () => {
  const { response } = await house().listen({ resourceSubscriptions: "all" });
  expect(response.headers.get("content-type")).toMatch(/json/);
  const nobody = house({ principal: () => undefined });
  const refused = await nobody.listen({ resourceSubscriptions: uris });
  expect(refused.response.status).toBe(401);
  expect(refused.response.headers.get("www-authenticate")).toBe("Bearer");
});

test("messages come between events, never inside one", async () => {
  const parts = ["event: a\nda", "ta: 1\n\n", "data: 2\n", "\n"].map((text) =>
    new TextEncoder().encode(text),
  );
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const part = parts.shift();
        // after all that the peer has ready
        await new Promise((resolve) => setTimeout(resolve, 1));
        if (part) controller.enqueue(part);
        else controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  let given = 0;
  const merged = mergeEvents(body, {
    next: async () => (given < 2 ? { n: ++given } : undefined),
    close: () => {},
  });
  expect(await new Response(merged).text()).toBe(
    'event: a\ndata: 1\n\nevent: message\ndata: {"n":1}\n\nevent: message\ndata: {"n":2}\n\ndata: 2\n\n',
  );
});

test.each(["events", "messages"])(
  "a fault of the %s breaks the stream and lets go",
  async (side) => {
    const fault = new Error("broke");
    let closed = 0;
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => (side === "events" ? controller.error(fault) : undefined),
      cancel: () => void (cancelled = true),
    });
    const merged = mergeEvents(body, {
      next: () => (side === "messages" ? Promise.reject(fault) : new Promise(() => {})),
      close: () => void closed++,
    });
    await expect(merged.getReader().read()).rejects.toBe(fault);
    expect(closed).toBe(1);
    expect(cancelled).toBe(side === "messages");
  },
);
