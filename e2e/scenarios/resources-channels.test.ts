import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend, wrapBackend, type StorageBackend } from "@sluice/storage";
import { expect, test, vi } from "vitest";
import { startSite } from "../bed/site.ts";

const base = "files://site/";

/** Counts how many watches of a storage are open. */
function counted(storage: StorageBackend): { storage: StorageBackend; open: () => number } {
  let open = 0;
  return {
    open: () => open,
    storage: wrapBackend(storage, {
      watch: (watch) =>
        async function* (options) {
          open++;
          try {
            yield* watch(options);
          } finally {
            open--;
          }
        },
    }),
  };
}

test("a modern client over a lasting channel receives only what it listens to [MCP/listen/must-filter] [MCP/listen/must-stamp]", async () => {
  const memory = createMemoryBackend({ "a.txt": "1", "b.txt": "1", "hidden.txt": "1" });
  const watches = counted(memory);
  const sluice = createSluice({
    storage: watches.storage,
    baseUri: base,
    endpoint: "http://127.0.0.1:9/mcp",
    keys: [generateKey()],
    access: (_who, uri) => (uri.includes("hidden") ? "hide" : "allow"),
    onWarning: () => {},
  });
  const [near, far] = InMemoryTransport.createLinkedPair();
  const sent: unknown[] = [];
  const send = far.send.bind(far);
  far.send = (message, options) => {
    sent.push(message);
    return send(message, options);
  };
  const served = serveStdio(
    () => sluice.attach(new McpServer({ name: "pipe", version: "1.0.0" }), { stream: false }),
    { transport: far },
  );
  const client = new Client({ name: "c", version: "1" }, { versionNegotiation: { mode: "auto" } });
  await client.connect(near);
  const heard: string[] = [];
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
    heard.push(params.uri);
  });
  client.setNotificationHandler("notifications/resources/list_changed", () => {
    heard.push("list");
  });
  expect(client.getNegotiatedProtocolVersion()).toBe("2026-07-28");
  await client.listResources();
  await client.listen({ resourceSubscriptions: [`${base}a.txt`, `${base}hidden.txt`] });
  await expect.poll(() => watches.open()).toBe(1);
  memory.put("hidden.txt", "2");
  memory.put("b.txt", "2");
  memory.put("new.txt", "1");
  memory.put("a.txt", "2");
  await vi.waitFor(() => expect(heard).not.toEqual([]), { timeout: 10_000 });
  // what was not asked for would come before the next change
  memory.put("a.txt", "3");
  await vi.waitFor(() => expect(heard).toHaveLength(2), { timeout: 10_000 });
  expect(heard).toEqual([`${base}a.txt`, `${base}a.txt`]);
  const stampsOf = (method: string) =>
    sent
      .map((message) => message as { method?: string; params?: { _meta?: object } })
      .filter((message) => message.method === method)
      .map(({ params }) => params?._meta);
  const stamps = stampsOf("notifications/subscriptions/acknowledged");
  const stamp = { "io.modelcontextprotocol/subscriptionId": expect.anything() };
  expect(stamps).toMatchObject([stamp]);
  expect(stampsOf("notifications/resources/updated")).toEqual([stamps[0], stamps[0]]);
  await client.close();
  await served.close();
  await expect.poll(() => watches.open()).toBe(0);
});

test.each(["session", "listen stream"])(
  "nothing is left of a %s over HTTP when its client goes",
  async (what) => {
    let open = (): number => -1;
    await using site = await startSite({
      files: { "a.txt": "1" },
      sessions: true,
      storage: (files) => {
        const watches = counted(files);
        ({ open } = watches);
        return watches.storage;
      },
    });
    const isModern = what === "listen stream";
    const transport = new StreamableHTTPClientTransport(new URL(site.url));
    const client = new Client(
      { name: "c", version: "1" },
      { versionNegotiation: { mode: isModern ? "auto" : "legacy" } },
    );
    await client.connect(transport);
    const uri = `${base}a.txt`;
    if (isModern) await client.listen({ resourceSubscriptions: [uri] });
    else await client.subscribeResource({ uri });
    await expect.poll(() => open()).toBe(1);
    if (!isModern) await transport.terminateSession();
    await client.close();
    await vi.waitFor(() => expect(open()).toBe(0), { timeout: 10_000 });
  },
);
