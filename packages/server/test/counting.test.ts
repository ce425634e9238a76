import { McpServer, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { EXTENSION_ID } from "@sluice/core/internal";
import type { RateLimiter, SluiceOptions } from "@sluice/server";
import { discardReply } from "@sluice/server/internal";
import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { alice, as, createHouse } from "./redeeming.ts";
import { declares, eras, talkTo } from "./talking.ts";

const bob = { ...alice, subject: "bob" };
const uri = "files://demo/a.bin";

/** A limiter that lets everything in and says what it counted. */
function createCounter(): RateLimiter & { readonly points: number[] } {
  const points: number[] = [];
  return { points, consume: async (_key, count) => void points.push(count) };
}

function createTalk(options: Partial<SluiceOptions>) {
  const house = createHouse({ anonymous: true, ...options });
  return { house, talk: talkTo(house.sluice) };
}

describe.each(eras)("%s era", (era) => {
  const templates = "resources/templates/list";

  test("a list of templates is one record and one request, and busy over the limit [ARTICLE/8/audit] [ARTICLE/9.2/rate-limit]", async () => {
    let left = 1;
    const requests: RateLimiter = {
      // oxlint-disable-next-line no-throw-literal -- as the library does
      consume: async () => {
        if (left-- === 0) throw { msBeforeNext: 1_500 };
      },
    };
    const { house, talk } = createTalk({ rates: { requests: { perPrincipal: requests } } });
    const listed = await talk(era, templates, { headers: as(alice) });
    expect(listed.message.result.resourceTemplates).toHaveLength(1);
    const refused = await talk(era, templates, { headers: as(alice) });
    expect(refused.message.error?.data).toMatchObject({ reason: "busy", retryAfterMs: 1_500 });
    expect(house.records).toMatchObject([
      {
        action: "templates",
        outcome: "complete",
        shown: 1,
        revision: era,
        principal: expect.any(String),
      },
      { action: "templates", outcome: "denied", reason: "throttled" },
    ]);
  });

  test("without a record there is no list of templates, where records are required", async () => {
    const { talk } = createTalk({
      audit: { sink: () => Promise.reject(new Error("disk full")), required: true },
    });
    const { message } = await talk(era, templates, { headers: as(alice) });
    expect(message.error?.data.reason).toBe("busy");
  });

  test("a read takes a permit while it lasts, and releases it however it ends", async () => {
    let finish = (): void => {};
    const memory = createMemoryBackend({ "a.bin": "0123456789", "b.bin": "other" });
    const storage = wrapBackend(memory, {
      open: (open) => async (key, options) => {
        if (key === "a.bin") await new Promise<void>((resolve) => (finish = resolve));
        return open(key, options);
      },
    });
    const { talk } = createTalk({ storage, limits: { streams: { perPrincipal: 1 } } });
    const read = async (name: string, who = alice) =>
      (
        await talk(era, "resources/read", {
          params: { uri: `files://demo/${name}` },
          headers: as(who),
        })
      ).message.error?.data.reason;
    const slow = read("a.bin");
    await expect.poll(() => read("b.bin")).toBe("busy");
    expect(await read("b.bin", bob)).toBeUndefined();
    finish();
    expect(await slow).toBeUndefined();
    expect(await read("gone.bin")).toBe("not_found");
    expect(await read("b.bin")).toBeUndefined();
  });

  test("a redirect counts with the size of the resource when it is issued, not when it is refused", async () => {
    const memory = createMemoryBackend({ "a.bin": "0123456789" });
    const storage = {
      ...memory,
      presign: async () => ({ url: "https://store.example.com/x", expiresAt: Date.now() }),
    };
    const bytes = createCounter();
    const { talk } = createTalk({
      storage,
      delivery: "redirect",
      redirectOrigins: ["https://store.example.com"],
      rates: { bytes: { perPrincipal: bytes } },
      access: (_who, asked) => (asked === uri ? "allow" : "deny"),
    });
    const ask = (name: string) =>
      talk(era, "resources/stream", {
        params: { uri: `files://demo/${name}` },
        headers: as(alice),
        capabilities: declares(),
      });
    expect((await ask("a.bin")).slot.reply?.status).toBe(302);
    // one to be let in
    expect(bytes.points).toEqual([1, 10]);
    await ask("b.bin");
    expect(bytes.points).toEqual([1, 10, 1]);
  });

  test("bytes that are read to find lines count, even if the lines are not there", async () => {
    const text = `${"x".repeat(99)}\n`.repeat(1_000);
    const storage = createMemoryBackend();
    storage.put("a.txt", text, { contentType: "text/plain" });
    const bytes = createCounter();
    const { house, talk } = createTalk({ storage, rates: { bytes: { perPrincipal: bytes } } });
    const read = (range: string) =>
      talk(era, "resources/read", {
        params: {
          uri: "files://demo/a.txt",
          _meta: { [EXTENSION_ID]: { range } },
        },
        headers: as(alice),
      });
    const found = await read("lines 901-901");
    expect(found.message.result.contents[0].text).toHaveLength(100);
    expect(bytes.points).toEqual([1, 90_000, 100]);
    expect(house.records.at(-1)).toMatchObject({ bytes: 100 });
    bytes.points.length = 0;
    expect((await read("lines 2000-2001")).message.error?.code).toBe(-32602);
    expect(bytes.points).toEqual([1, 100_000]);
    bytes.points.length = 0;
    await read("lines 1-2");
    expect(bytes.points).toEqual([1, 200]);
  });
});

describe("streams of subscriptions/listen", () => {
  const params = { notifications: { resourcesListChanged: true } };

  function createListening(listeners: object) {
    const { sluice } = createHouse({ limits: { listeners } });
    return async (who = alice) => {
      const { authorization } = as(who);
      const caller = {
        authInfo: undefined,
        sessionId: undefined,
        header: (name: string) => (name === "authorization" ? authorization : undefined),
      };
      return sluice.host.listen({ id: 1, params, caller });
    };
  }

  test("are counted for each principal, and a permit is free again when one is closed", async () => {
    const listen = createListening({ perPrincipal: 2 });
    const [one, two] = [await listen(), await listen()];
    expect(await listen()).toMatchObject({ fault: { data: { reason: "busy" } } });
    const others = await listen(bob);
    expect(others).not.toHaveProperty("fault");
    for (const each of [one, one, two, others]) if ("close" in each) each.close();
    const after = await listen();
    expect(after).not.toHaveProperty("fault");
    if ("close" in after) after.close();
  });

  test("are counted for the process, and leave the permits of downloads alone", async () => {
    const house = createHouse({
      limits: { streams: { perProcess: 1 }, listeners: { perProcess: 1 } },
    });
    const caller = {
      authInfo: undefined,
      sessionId: undefined,
      header: (name: string) => as(alice)[name as "authorization"],
    };
    const listening = await house.sluice.host.listen({ id: 1, params, caller });
    expect(await house.sluice.host.listen({ id: 2, params, caller })).toMatchObject({
      fault: { data: { reason: "busy" } },
    });
    const { token } = house.seal("download", { key: "a.bin", principal: alice });
    const reply = await house.redeem(token, { headers: as(alice) });
    expect(reply.status).toBe(200);
    reply.transfer?.end({ outcome: "aborted", bytes: 0 });
    if ("close" in listening) listening.close();
  });
});

describe("subscribe is declared where it works [ARTICLE/3/capabilities]", () => {
  const initialize = {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "raw", version: "1" },
  };

  test("HTTP without a session does not declare it, unless the author of the server answers it", async () => {
    const { sluice } = createHouse();
    const declared = async (register?: (mcp: McpServer) => void) => {
      const { message } = await talkTo(sluice, register)("legacy", "initialize", {
        params: initialize,
      });
      return message.result.capabilities.resources;
    };
    expect(await declared()).toEqual({ listChanged: true, stream: true });
    const authors = await declared(({ server }) => {
      server.registerCapabilities({ resources: { subscribe: true } });
      server.setRequestHandler("resources/subscribe", () => ({}));
    });
    expect(authors).toMatchObject({ subscribe: true });
  });

  test("HTTP with a session declares it, and answers it", async () => {
    const { sluice } = createHouse({ anonymous: true });
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => "s-1",
      enableJsonResponse: true,
    });
    const mcp = sluice.attach(new McpServer({ name: "test", version: "1.0.0" }));
    await mcp.connect(transport);
    const post = async (method: string, params: object, session: Record<string, string> = {}) => {
      const response = await transport.handleRequest(
        new Request("http://127.0.0.1/mcp", {
          method: "POST",
          headers: {
            "content-type": "application/json",
            accept: "application/json, text/event-stream",
            ...as(alice),
            ...session,
          },
          body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
        }),
      );
      return (await response.json()) as { result?: any; error?: unknown };
    };
    const { result } = await post("initialize", initialize);
    expect(result.capabilities.resources).toMatchObject({ subscribe: true });
    const session = { "mcp-session-id": "s-1" };
    expect(await post("resources/subscribe", { uri }, session)).toMatchObject({ result: {} });
    await mcp.close();
  });

  test("the modern era declares it, for subscriptions/listen", async () => {
    const { sluice } = createHouse();
    const { message } = await talkTo(sluice)("modern", "server/discover");
    expect(message.result.capabilities.resources).toMatchObject({ subscribe: true });
  });
});

describe("shares of an address", () => {
  const from = "198.51.100.1";
  const behindProxy = { headers: { "cf-connecting-ip": from }, address: "192.0.2.1" };

  function createBehindProxy(limits: SluiceOptions["limits"]) {
    return createHouse({
      anonymous: true,
      clientAddress: ({ header }) => header("cf-connecting-ip"),
      ...(limits && { limits }),
    });
  }

  test("are counted for downloads by the address that the option returns", async () => {
    const house = createBehindProxy({ streams: { perAddress: 1 } });
    const { token } = house.seal("download", { key: "a.bin" });
    const held = await house.redeem(token, behindProxy);
    expect(held.status).toBe(200);
    expect((await house.redeem(token, behindProxy)).status).toBe(429);
    const headers = { "cf-connecting-ip": "198.51.100.2" };
    const beside = await house.redeem(token, { ...behindProxy, headers });
    expect(beside.status).toBe(200);
    for (const { transfer } of [held, beside]) transfer?.end({ outcome: "aborted", bytes: 0 });
  });

  test.each(eras)(
    "are counted for streams by the address that the option returns (%s)",
    async (era) => {
      const talk = talkTo(createBehindProxy({ streams: { perAddress: 1 } }).sluice);
      const stream = (address: string) =>
        talk(era, "resources/stream", {
          params: { uri: "files://demo/a.bin" },
          headers: { "cf-connecting-ip": address },
        });
      const held = await stream(from);
      expect(held.slot.reply?.status).toBe(200);
      expect((await stream(from)).slot.fault).toMatchObject({ data: { reason: "busy" } });
      const beside = await stream("198.51.100.2");
      expect(beside.slot.reply?.status).toBe(200);
      for (const { slot } of [held, beside]) discardReply(slot.reply!);
    },
  );

  test("are counted for listeners by the address that the option returns", async () => {
    const { sluice } = createBehindProxy({ listeners: { perAddress: 1 } });
    const listen = (address: string) =>
      sluice.host.listen({
        id: 1,
        params: { notifications: { resourcesListChanged: true } },
        caller: {
          address: "192.0.2.1",
          header: (name) => (name === "cf-connecting-ip" ? address : undefined),
        },
      });
    const held = await listen(from);
    expect(await listen(from)).toMatchObject({ fault: { data: { reason: "busy" } } });
    const beside = await listen("198.51.100.2");
    expect(beside).not.toHaveProperty("fault");
    for (const each of [held, beside]) if ("close" in each) each.close();
  });
});
