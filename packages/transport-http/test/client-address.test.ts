import type { Caller } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { post, streaming } from "./call.ts";
import { serve } from "./serve.ts";

const uri = "files://demo/a.txt";

test("handlers of both eras and the download route know the address of the client", async () => {
  const seen: (string | undefined)[] = [];
  const { url } = await serve({
    sluice: {
      clientAddress: 1,
      storage: createMemoryBackend({ "a.txt": "a" }),
      principal({ address }: Caller) {
        seen.push(address);
        return { issuer: "", subject: "one", clientId: "" };
      },
    },
  });
  const headers = { "x-forwarded-for": "203.0.113.9, 198.51.100.2" };
  const capabilities = streaming({ prefer: ["downloadUrl"] });
  for (const era of ["modern", "legacy"] as const)
    await (await post(url, era, uri, { headers, method: "resources/read" })).text();
  const json = await post(url, "modern", uri, { headers, capabilities });
  const { result } = (await json.json()) as { result: { downloadUrl: string } };
  expect((await fetch(result.downloadUrl, { headers })).status).toBe(200);
  expect(seen).toEqual(Array(seen.length).fill("198.51.100.2"));
  expect(seen.length).toBeGreaterThanOrEqual(4);
});

test("limits of addresses count by what a function of the caller knows, which resolvers do not see", async () => {
  const seen: (string | undefined)[] = [];
  const { url } = await serve({
    sluice: {
      storage: createMemoryBackend({ "a.txt": "a" }),
      clientAddress: ({ header }: Caller) => header("cf-connecting-ip"),
      principal({ address }: Caller) {
        seen.push(address);
        return { issuer: "", subject: "one", clientId: "" };
      },
    },
    register: (mcp) =>
      void mcp.registerTool("wait", {}, async () => {
        await held;
        return { content: [] };
      }),
    node: { requests: { perAddress: 1 } },
  });
  const statusOf = async (address: string): Promise<number> => {
    const headers = { "cf-connecting-ip": address, "x-forwarded-for": "203.0.113.9" };
    const response = await post(url, "modern", uri, { headers, method: "resources/read" });
    await response.text();
    return response.status;
  };
  let release = (): void => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  const waiting = fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "cf-connecting-ip": "192.0.2.1",
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name: "wait" },
    }),
  });
  await expect.poll(() => statusOf("192.0.2.1")).toBe(429);
  expect(await statusOf("192.0.2.2")).toBe(200);
  release();
  await (await waiting).text();
  expect(new Set(seen)).toEqual(new Set(["127.0.0.1"]));
});
