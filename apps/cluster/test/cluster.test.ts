import { readFile } from "node:fs/promises";
import { streamResource } from "@sluice/client";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { adapted, startNginx } from "../../../e2e/bed/nginx.ts";
import { siteOf } from "../src/lib/nginx.ts";
import { callTool, connect, pastNginx } from "../src/lib/outside-client.ts";
import type { Cluster } from "../src/lib/start-cluster.ts";
import { bytes, canRun, longName, sha256, startSmallCluster, tokens } from "./bed.ts";

const uri = "files://cluster/a.bin";

describe.skipIf(!canRun)("processes behind nginx, as docs/guides/deploy/nginx.md has it", () => {
  let cluster: Cluster;
  let a: string;
  let b: string;
  beforeAll(async () => {
    cluster = await startSmallCluster();
    [a, b] = cluster.processes.map(({ port }) => pastNginx(cluster.endpoint, port)) as [
      string,
      string,
    ];
  }, 60_000);
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  /** Posts a message of the legacy era, to nginx or to one process. */
  const post = (url: string, message: object, options: { session?: string; token?: string } = {}) =>
    fetch(url, {
      method: "POST",
      headers: {
        ...headersOf(options),
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
      },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    });

  async function openSession(url: string): Promise<string> {
    const response = await post(url, {
      id: 1,
      method: "initialize",
      params: {
        protocolVersion: "2025-11-25",
        capabilities: {},
        clientInfo: { name: "test", version: "1" },
      },
    });
    await response.text();
    const session = response.headers.get("mcp-session-id")!;
    expect((await post(url, { method: "notifications/initialized" }, { session })).status).toBe(
      202,
    );
    return session;
  }

  test("a client that knows one address is served by all of them, and notices nothing", async () => {
    const served = new Set<string | null>();
    for (let n = 0; n < 4; n++) {
      const response = await fetch(cluster.endpoint, { headers: headersOf({}) });
      served.add(response.headers.get("x-served-by"));
      await response.body?.cancel();
    }
    expect(served).toEqual(new Set(["a", "b"]));

    const client = await connect({ endpoint: cluster.endpoint, token: tokens.ann });
    const { resources } = await client.request({ method: "resources/list", params: {} });
    expect(resources.map((each) => each.uri)).toContain(uri);
    const stream = await streamResource(client, uri);
    expect(Buffer.from(await new Response(stream.body).arrayBuffer()).equals(bytes)).toBe(true);
    await client.close();
  });

  test("an answer whose headers are as long as they can be comes through nginx, and not through one with its own buffers", async () => {
    const client = await connect({ endpoint: cluster.endpoint, token: tokens.ann });
    const url = await callTool(client, "make_link", {
      uri: `files://cluster/${encodeURIComponent(longName)}`,
    });
    const page = await readFile(
      new URL("../../../docs/guides/deploy/nginx.md", import.meta.url),
      "utf8",
    );
    const processes = cluster.processes.map(({ port }) => port);
    const twin = await startNginx((port) =>
      adapted(siteOf(page, { port, processes }), {
        "proxy_buffer_size 32k;": "",
        "proxy_buffers 4 32k;": "",
      }),
    );
    onTestFinished(() => twin.close());
    const [right, wrong] = await Promise.all(
      [url, pastNginx(url, twin.port)].map((each) => fetch(each, { headers: headersOf({}) })),
    );
    expect(Buffer.from(await right!.arrayBuffer()).equals(bytes)).toBe(true);
    expect(wrong!.status).toBe(502);
    await wrong!.body?.cancel();
    await client.close();
  });

  test("a URL that one process made is redeemed once, and revoked, at any of them", async () => {
    const client = await connect({ endpoint: cluster.endpoint, token: tokens.ann });
    const statusesOf = (url: string, token = tokens.ann) =>
      Promise.all(
        [...cluster.processes, ...cluster.processes].map(async ({ port }) => {
          const response = await fetch(pastNginx(url, port), { headers: headersOf({ token }) });
          await response.body?.cancel();
          return response.status;
        }),
      );
    const once = await statusesOf(await callTool(client, "make_link", { uri, once: true }));
    expect(once.toSorted((one, other) => one - other)).toEqual([200, 404, 404, 404]);
    const url = await callTool(client, "make_link", { uri });
    expect(await statusesOf(url)).toEqual([200, 200, 200, 200]);
    expect(await statusesOf(url, tokens.bob)).toEqual([404, 404, 404, 404]);
    await callTool(client, "revoke_links", {});
    expect(await statusesOf(url)).toEqual([404, 404, 404, 404]);
    await client.close();
  });

  test("a session goes on in a process that never saw it, for its own user, until it is over", async () => {
    const session = await openSession(a);
    const list = (url: string, token = tokens.ann) =>
      post(url, { id: 2, method: "tools/list", params: {} }, { session, token });
    for (const url of [a, b, cluster.endpoint]) {
      const response = await list(url);
      expect(await response.text()).toContain('"hash_file"');
    }
    expect((await list(b, tokens.bob)).status).toBe(404);
    const over = await fetch(b, { method: "DELETE", headers: headersOf({ session }) });
    expect(over.status).toBe(200);
    for (const url of [a, b]) expect((await list(url)).status).toBe(404);
  });

  test("a stream of events that one process began is picked up at the other", async () => {
    const session = await openSession(a);
    const params = { name: "hash_file", arguments: { uri }, _meta: { progressToken: "p" } };
    const answer = await post(a, { id: 3, method: "tools/call", params }, { session });
    const reader = answer.body!.getReader();
    let begun = "";
    while (!begun.includes("\n\n"))
      begun += Buffer.from((await reader.read()).value ?? []).toString();
    await reader.cancel();
    begun = begun.slice(0, begun.lastIndexOf("\n\n") + 2);
    const [, link] = /^<(.+)>; rel="stream"$/.exec(answer.headers.get("link")!)!;

    // a process that does not run the call sends what there is, and asks the reader to come again
    let all = begun;
    while (!all.includes('"result"')) {
      const rest = await fetch(pastNginx(link!, cluster.processes[1]!.port), {
        headers: { ...headersOf({ session }), "last-event-id": lastIdIn(all) },
      });
      expect([rest.status, rest.headers.get("x-served-by")]).toEqual([200, "b"]);
      all += await rest.text();
    }
    expect(all).toContain(sha256);
    const steps = [...all.matchAll(/"progress":(\d)/g)].map(([, step]) => Number(step));
    expect(steps).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  test("nginx asks the other process for downloads of one that goes away, and afterwards for everything", async () => {
    const client = await connect({ endpoint: cluster.endpoint, token: tokens.bob });
    const url = await callTool(client, "make_link", { uri });
    const session = await openSession(cluster.endpoint);
    const headers = { ...headersOf({ token: tokens.bob }), range: "bytes=0-99" };
    const over = new AbortController();
    const stopping = cluster.processes[0]!.stop().finally(() => over.abort());
    while (!over.signal.aborted) {
      const part = await fetch(url, { headers });
      expect([part.status, (await part.arrayBuffer()).byteLength]).toEqual([206, 100]);
    }
    await stopping;
    // nginx still tries both in turn, and sends on what no process has read
    for (let n = 0; n < 4; n++) {
      const answer = await post(cluster.endpoint, { id: 4, method: "ping" }, { session });
      expect([answer.status, answer.headers.get("x-served-by")]).toEqual([200, "b"]);
      await answer.body?.cancel();
    }
    await client.close();
  }, 30_000);
});

function lastIdIn(events: string): string {
  return [...events.matchAll(/^id: (.+)$/gm)].at(-1)![1]!;
}

function headersOf({ session, token = tokens.ann }: { session?: string; token?: string }) {
  return {
    authorization: `Bearer ${token}`,
    ...(session !== undefined && {
      "mcp-session-id": session,
      "mcp-protocol-version": "2025-11-25",
    }),
  };
}
