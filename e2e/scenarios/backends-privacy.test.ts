import type { IncomingMessage } from "node:http";
import type { DeliveryMode } from "@sluice/core/internal";
import { describe, expect, test } from "vitest";
import { startBackendSite, token, type BackendSite } from "../bed/backend-site.ts";
import { serviceNames } from "../bed/backends.ts";
import { bytesOf } from "../bed/content.ts";
import { baseUri } from "../bed/site.ts";

const modes: DeliveryMode[] = ["direct", "redirect", "downloadUrl"];
const content = bytesOf(100_000, "private");

/** What of MCP, or of the caller, is in requests. */
function tracesIn(requests: readonly IncomingMessage[], sessions: ReadonlySet<string>): string[] {
  return requests.flatMap(({ method, url, rawHeaders, headers }) => {
    const everything = `${method} ${url}\n${rawHeaders.join("\n")}`;
    const named = Object.keys(headers).filter((name) => /^(mcp-|cookie$|referer$)/.test(name));
    const known = [token, ...sessions].filter((secret) => everything.includes(secret));
    return [...named, ...known];
  });
}

/** Ids of the sessions that went over the client's line. */
function sessionsOf({ line }: BackendSite): Set<string> {
  return new Set(
    line.requests.flatMap(({ headers }) => headers["mcp-session-id"] ?? []).map(String),
  );
}

const atStorage = ({ service: { store, api } }: BackendSite): IncomingMessage[] => [
  ...new Set([...store.requests, ...api.requests]),
];

describe.each(serviceNames)("%s", (name) => {
  test.each(["SDK v2, modern", "SDK v2, legacy"] as const)(
    "nothing of MCP and no bearer of the caller reaches the storage, %s",
    async (sdk) => {
      await using site = await startBackendSite(name, { sdk });
      await site.service.put("plans.bin", content);
      for (const mode of modes) {
        site.mode = mode;
        const before = site.service.store.requests.length;
        expect((await site.download("plans.bin")).equals(content)).toBe(true);
        if (mode !== "redirect") continue;
        // the client was there itself: with the URL, and with nothing else
        const own = site.service.store.requests
          .slice(before)
          .filter(({ method }) => method === "GET");
        expect(own).toHaveLength(1);
        expect(own[0]!.headers).not.toHaveProperty("authorization");
      }
      const sessions = sessionsOf(site);
      expect(sessions.size > 0).toBe(sdk === "SDK v2, legacy");
      expect(tracesIn(atStorage(site), sessions)).toEqual([]);
    },
  );
});

describe("negative controls are detected", () => {
  test("a client that lets fetch follow the redirect", async () => {
    await using site = await startBackendSite("s3");
    await site.service.put("plans.bin", content);
    site.mode = "redirect";
    await callAndFollow(site.url, baseUri + "plans.bin");
    const traces = tracesIn(atStorage(site), new Set());
    expect(traces).toContain("mcp-protocol-version");
  });

  test("a server that passes on what its caller sent", async () => {
    await using site = await startBackendSite("s3", {
      storage: (backend, { store }) => ({
        ...backend,
        async describe(key, options) {
          const headers = { authorization: `Bearer ${token}` };
          await (await fetch(`${store.origin}/bucket/${key}`, { headers })).body?.cancel();
          return backend.describe(key, options);
        },
      }),
    });
    await site.service.put("plans.bin", content);
    await site.download("plans.bin");
    expect(tracesIn(atStorage(site), new Set())).toContain(token);
  });
});

/** What a client does that leaves redirects to `fetch`: the headers of the call go along. */
async function callAndFollow(url: string, uri: string): Promise<void> {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "naive", version: "1.0.0" },
    "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} },
  };
  const answer = await fetch(url, {
    method: "POST",
    headers: {
      accept: "application/json, text/event-stream",
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "mcp-method": "resources/stream",
      "mcp-protocol-version": "2026-07-28",
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "resources/stream",
      params: { uri, _meta },
    }),
  });
  await answer.body?.cancel();
}
