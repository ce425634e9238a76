import {
  InMemoryTransport,
  type JSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/client";
import type { RelayHooks, Upstream } from "@sluice/bridge";
import { describe, expect, test } from "vitest";
import { bridged, rawHost } from "./bridged.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** A server whose messages a test writes itself. */
function rawServer(): {
  upstream: Upstream;
  got: JSONRPCMessage[];
  send(message: object): void;
} {
  const got: JSONRPCMessage[] = [];
  const [bridgeEnd, serverEnd] = InMemoryTransport.createLinkedPair();
  serverEnd.onmessage = (message) => void got.push(message);
  void serverEnd.start();
  return {
    upstream: { name: "raw", kind: "process", open: (): Transport => bridgeEnd },
    got,
    send: (message) => void serverEnd.send({ jsonrpc: "2.0", ...message } as JSONRPCMessage),
  };
}

const envelope = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};
const initialize = {
  id: "first",
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "h", version: "1" },
  },
};
const initialized = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  serverInfo: { name: "s", version: "1" },
};

const discovered = { resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: {} };

async function connect(revision: "legacy" | "modern", hooks?: RelayHooks) {
  const server = rawServer();
  const host = await rawHost(bridged({ upstream: server.upstream, hooks }).transport);
  const first = { id: "first", method: "example/first", params: { _meta: envelope } };
  await host.send(revision === "legacy" ? initialize : first);
  await expect.poll(() => server.got.length).toBe(1);
  // the host's own `initialize`, or the bridge's `server/discover`
  const { id } = server.got[0] as { id: string };
  server.send({ id, result: revision === "legacy" ? initialized : discovered });
  if (revision === "legacy") await host.send({ method: "notifications/initialized" });
  await expect.poll(() => server.got.length).toBe(2);
  const begun = [...host.got];
  host.got.length = 0;
  server.got.length = 0;
  return { host, server, begun };
}

describe.each(["legacy", "modern"] as const)(
  "with the same revision on both sides, %s",
  (revision) => {
    const meta =
      revision === "modern"
        ? { _meta: { ...envelope, "example.com/x": [1] } }
        : { _meta: { x: 1 } };

    test("unknown methods and members pass in both directions, with their ids", async () => {
      const { host, server } = await connect(revision);
      const requests = [
        {
          jsonrpc: "2.0",
          id: 0,
          method: "example/unknown",
          params: { ...meta, odd: { deep: [null] } },
        },
        {
          jsonrpc: "2.0",
          id: "0",
          method: "tools/call",
          params: { ...meta, name: "t", extra: true },
        },
        { jsonrpc: "2.0", method: "notifications/example", params: { any: "thing" } },
      ];
      for (const request of requests) await host.send(request);
      await expect.poll(() => server.got).toEqual(requests);

      const answers = [
        { jsonrpc: "2.0", method: "notifications/example", params: { other: 1 } },
        {
          jsonrpc: "2.0",
          method: "notifications/progress",
          params: { progressToken: 7, progress: 1 },
        },
        {
          jsonrpc: "2.0",
          id: "0",
          result: { resultType: "input_required", requestState: "s", odd: 1 },
        },
        { jsonrpc: "2.0", id: 0, error: { code: -1234, message: "odd", data: { kept: [1] } } },
      ];
      for (const answer of answers) server.send(answer);
      await expect.poll(() => host.got).toEqual(answers);
    });

    test("an answer that was not asked for does not reach the host, nor does a second one", async () => {
      const { host, server } = await connect(revision);
      await host.send({ id: 1, method: "example/one", params: meta });
      await expect.poll(() => server.got.length).toBe(1);
      server.send({ id: 99, result: { forged: true } });
      server.send({ id: 1, result: { ok: true } });
      server.send({ id: 1, result: { ok: "again" } });
      server.send({ method: "notifications/last" });
      await expect.poll(() => host.got.length).toBe(2);
      expect(host.got).toMatchObject([
        { id: 1, result: { ok: true } },
        { method: "notifications/last" },
      ]);
    });

    test("a hook answers in place of the server, changes requests and answers, and sees cancellations", async () => {
      let aborted = false;
      const { host, server } = await connect(revision, {
        request: (request, signal) => {
          if (request.method === "example/own") return { answer: { result: { own: true } } };
          if (request.method === "example/fails") throw new Error("no");
          if (request.method === "example/waits")
            return new Promise((resolve) =>
              signal.addEventListener("abort", () => {
                aborted = true;
                resolve(undefined);
              }),
            );
          return request.method === "example/changed"
            ? { ...request, params: { ...meta, b: 2 } }
            : undefined;
        },
        answer: (request, response) =>
          "result" in response && request.method === "example/changed"
            ? { ...response, result: { ...response.result, seen: true } }
            : response,
      });
      await host.send({ id: 1, method: "example/own", params: meta });
      await host.send({ id: 2, method: "example/fails", params: meta });
      await host.send({ id: 3, method: "example/waits", params: meta });
      await host.send({ id: 4, method: "example/changed", params: meta });
      await expect.poll(() => server.got).toMatchObject([{ id: 4, params: { b: 2 } }]);
      server.send({ id: 4, result: { a: 1 } });
      await host.send({ method: "notifications/cancelled", params: { requestId: 3 } });
      await expect.poll(() => host.got.length).toBe(3);
      expect(host.got).toMatchObject([
        { id: 1, result: { own: true } },
        { id: 2, error: { message: "no" } },
        { id: 4, result: { a: 1, seen: true } },
      ]);
      await expect.poll(() => aborted).toBe(true);
    });
  },
);

test("the host's own initialize is what the server gets, and its answer what the host gets", async () => {
  const { begun } = await connect("legacy");
  expect(begun).toEqual([{ jsonrpc: "2.0", id: "first", result: initialized }]);
});

test("requests of the server reach the host, and its answers the server", async () => {
  const { host, server } = await connect("legacy");
  server.send({ id: 5, method: "example/ask", params: { q: 1 } });
  await expect
    .poll(() => host.got)
    .toEqual([{ jsonrpc: "2.0", id: 5, method: "example/ask", params: { q: 1 } }]);
  server.got.length = 0;
  await host.send({ id: 5, result: { a: 1 } });
  await host.send({ id: 6, result: { forged: true } });
  await host.send({ method: "notifications/last" });
  await expect.poll(() => server.got.length).toBe(2);
  expect(server.got).toMatchObject([{ id: 5, result: { a: 1 } }, { method: "notifications/last" }]);
});

test("more open calls than allowed are refused", async () => {
  const server = rawServer();
  const { transport } = bridged({ upstream: server.upstream, limits: { maxOpenCalls: 2 } });
  const host = await rawHost(transport);
  await host.send(initialize);
  await expect.poll(() => server.got.length).toBe(1);
  server.send({ id: "first", result: initialized });
  await expect.poll(() => host.got.length).toBe(1);
  for (const id of [1, 2, 3]) await host.send({ id, method: "example/wait" });
  await expect.poll(() => host.got.length).toBe(2);
  expect(host.got[1]).toMatchObject({ id: 3, error: { data: { retryable: true } } });
});
