import { createMemoryBackend } from "@sluice/storage";
import { withBinary } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { expect, test } from "vitest";
import { post } from "./call.ts";
import { serve, type Served } from "./serve.ts";

const uri = "files://demo/a.bin";
const storage = createMemoryBackend({ "a.bin": "0123456789" });

/** Posts with the method spelled as some JSON writers do it, or as none does. */
function postSpelled(url: string, method: string, headers: Record<string, string> = {}) {
  return post(url, "modern", uri, { headers }, (input, init) =>
    fetch(input, { ...init, body: (init.body as string).replace("resources/stream", method) }),
  );
}

test.each([String.raw`resources\/stream`, String.raw`\u0072esources/str\u0065am`])(
  "a call is the same call when its method is written %s",
  async (method) => {
    const { url } = await serve({ sluice: { storage } });
    expect((await postSpelled(url, method)).headers.get("mcp-resource-uri")).toBe(uri);
    const misnamed = await postSpelled(url, method, { "mcp-name": "files://demo/b.bin" });
    expect([misnamed.status, await misnamed.json()]).toEqual([
      400,
      expect.objectContaining({ error: expect.objectContaining({ code: -32020 }) }),
    ]);
    const foreign = await postSpelled(url, method, { origin: "https://evil.example.com" });
    expect(foreign.status).toBe(403);
  },
);

const headers = { "x-from-the-call": "1", "set-cookie": "a=b" };

test("a refusal leaves out members of a call that JSON-RPC does not name", async () => {
  const { url } = await serve({ sluice: { storage } });
  const named = { headers: { "mcp-name": "files://demo/b.bin" } };
  const response = await post(url, "modern", uri, named, (input, init) => {
    const body = JSON.stringify({ ...JSON.parse(init.body as string), headers });
    return fetch(input, { ...init, body });
  });
  expect(response.status).toBe(400);
  for (const name of Object.keys(headers)) expect(response.headers.get(name)).toBeNull();
});

test("the refusal of a malformed reference leaves out members that JSON-RPC does not name", async () => {
  const handler = withBinary({
    fetch: async (_request: Request, _options?: object) => new Response(),
  });
  const params = { blob: { binaryRef: { streamId: "none", size: 1, interleave: true } } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params, headers });
  const type = { "content-type": "application/json" };
  const request = new Request("http://a.test", { method: "POST", headers: type, body });
  const response = await handler.fetch(request);
  expect([response.status, await response.json()]).toMatchObject([400, { id: 1 }]);
  for (const name of Object.keys(headers)) expect(response.headers.get(name)).toBeNull();
});

test("a fetch that is put in the place of ours sees each call, and its answer is sent", async () => {
  let served: Served | undefined;
  const seen: string[] = [];
  served = await serve({
    sluice: { storage },
    mount: () => (req, res) => {
      const { handler } = served!;
      const fetch: typeof handler.fetch = async (request, options) => {
        seen.push(request.method);
        const { body, status, headers: inner } = await handler.fetch(request, options);
        const outer = new Headers(inner);
        outer.set("x-layer", "1");
        return new Response(body, { status, headers: outer });
      };
      toNodeHandler({ ...handler, fetch })(req, res);
    },
  });
  const response = await post(served.url, "modern", uri);
  expect(seen).toEqual(["POST"]);
  expect(response.headers.get("x-layer")).toBe("1");
  expect(await response.text()).toBe("0123456789");
});
