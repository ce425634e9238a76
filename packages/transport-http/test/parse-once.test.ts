import { type McpFetchHandler } from "@sluice/transport-http";
import { withBinary } from "@sluice/transport-http/internal";
import { expect, test, vi } from "vitest";
import { call, layers, post, url } from "./layers.ts";

const meta = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

const bodies: [string, object | readonly object[], Record<string, string>?][] = [
  ["a tool call", call("tools/call", { name: "none", arguments: {} })],
  [
    "a tool call of a session",
    call("tools/call", { name: "none" }),
    { "mcp-session-id": "3f0a1b9e-8f6f-4d2b-9a55-1c2d3e4f5a6b" },
  ],
  [
    "initialize",
    call("initialize", {
      protocolVersion: "2025-06-18",
      capabilities: {},
      clientInfo: { name: "t", version: "1" },
    }),
  ],
  ["resources/stream", call("resources/stream", { uri: "files://demo/a" })],
  [
    "a tool call that mentions ours",
    call("tools/call", { name: "none", arguments: { a: "binary resources/stream initialize" } }),
  ],
  ["a batch", [call("ping"), { jsonrpc: "2.0", method: "notifications/initialized" }]],
  ["a notification", { jsonrpc: "2.0", method: "notifications/initialized" }],
  [
    "a call without a session",
    call("tools/list", { _meta: meta }),
    { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list" },
  ],
  ["what is no JSON-RPC", { hello: "world" }],
];

test.each(bodies)(
  "the JSON of %s is parsed once, whatever the layers",
  async (_, body, headers) => {
    for (const [order, handler] of Object.entries(layers())) {
      const text = JSON.stringify(body);
      const parse = vi.spyOn(JSON, "parse");
      try {
        await (await handler.fetch(post(text, headers))).text();
        const parsed = parse.mock.calls.filter(([given]) => given === text);
        expect(parsed, order).toHaveLength(1);
      } finally {
        parse.mockRestore();
      }
    }
  },
);

test("JSON over the limit is answered with 413, which names the option that raises it", async () => {
  const large = JSON.stringify(
    call("tools/call", { name: "none", arguments: { a: "x".repeat(2 ** 22) } }),
  );
  for (const handler of Object.values(layers())) {
    const refused = await handler.fetch(post(large));
    expect(refused.status).toBe(413);
    expect(await refused.json()).toMatchObject({
      id: null,
      error: { message: expect.stringMatching(/4194304 bytes.*maxRequestBodySize/) },
    });
  }
  for (const handler of Object.values(layers({ maxRequestBodySize: 2 ** 23 }))) {
    const taken = await handler.fetch(post(large));
    expect(taken.status).toBe(200);
    await taken.text();
  }
});

test("the limit of an inner layer holds for the layers around it", () => {
  for (const handler of Object.values(layers({ maxRequestBodySize: 2 ** 23 })))
    expect(handler.maxRequestBodySize).toBe(2 ** 23);
  for (const handler of Object.values(layers())) expect(handler.maxRequestBodySize).toBe(2 ** 22);
});

test("JSON nested deeper than 128 levels is refused before it is parsed", async () => {
  const deep = JSON.stringify(call("ping")).replace(
    "{}",
    `{"a":${"[".repeat(128)}${"]".repeat(128)}}`,
  );
  for (const handler of Object.values(layers())) {
    const parse = vi.spyOn(JSON, "parse");
    try {
      const refused = await handler.fetch(post(deep));
      expect(refused.status).toBe(400);
      expect(await refused.text()).toContain("nested deeper than 128 levels");
      expect(parse.mock.calls.filter(([given]) => given === deep)).toEqual([]);
    } finally {
      parse.mockRestore();
    }
  }
});

test("a body that is not JSON is refused, and not echoed", async () => {
  for (const handler of Object.values(layers())) {
    const refused = await handler.fetch(post("secret{"));
    expect(refused.status).toBe(400);
    expect(await refused.json()).toEqual({
      jsonrpc: "2.0",
      id: null,
      error: { code: -32_700, message: "Parse error: Invalid JSON" },
    });
  }
});

test("a body that middleware parsed stays as it is, whatever its size", async () => {
  const parsedBody = call("tools/call", { name: "none", arguments: { a: "x".repeat(2 ** 22) } });
  for (const handler of Object.values(layers())) {
    const answer = await handler.fetch(post("unread"), { parsedBody });
    expect(answer.status).toBe(200);
    await answer.text();
  }
});

test("a handler that reads the request itself still can", async () => {
  const seen: unknown[] = [];
  const own: McpFetchHandler = {
    async fetch(request) {
      seen.push(await request.json());
      return new Response();
    },
  };
  await withBinary(own).fetch(post(JSON.stringify(call("ping"))));
  expect(seen).toEqual([call("ping")]);
});

test("a link of a stream knows its caller before a byte of the body is asked for", async () => {
  for (const handler of Object.values(layers())) {
    let pulls = 0;
    const body = new ReadableStream(
      { pull: () => void (pulls += 1) },
      { highWaterMark: 0, size: () => 1 },
    );
    const { headers } = post("");
    const refused = await handler.fetch(
      new Request(`${url}/resume/made-up`, { method: "POST", headers, body, duplex: "half" }),
    );
    expect(refused.status).toBe(404);
    expect(pulls).toBe(0);
  }
});
