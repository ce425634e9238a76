import { createKeyRing, createSealer, generateKey } from "@sluice/core";
import type { AccessRule } from "@sluice/server";
import type { StorageBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { call, send, type RawAnswer } from "../bed/raw.ts";
import { startSite, type Site } from "../bed/site.ts";

const hidden = "reports/secret.bin";
const missing = "reports/absent.bin";
const token = "alice-token";
const headers = { authorization: `Bearer ${token}` };

/** A backend that notes its calls. */
function logged(backend: StorageBackend, calls: string[]): StorageBackend {
  return new Proxy(backend, {
    get(target, name: keyof StorageBackend) {
      const member: unknown = target[name];
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        calls.push(`${name} ${String(args[0])}`);
        return (member as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
}

/** A site with a hidden file; `work` notes every question about access and every call of storage. */
async function start(work: string[] = []): Promise<{ site: Site; urlOf: (key: string) => string }> {
  const hides: AccessRule = (_principal, uri) => {
    work.push(`access ${uri}`);
    return uri.endsWith(hidden) ? "hide" : "allow";
  };
  const keys = createKeyRing([generateKey()]);
  const site = await startSite({
    files: { [hidden]: "secret", "reports/open.bin": "open" },
    accounts: { [token]: { subject: "alice" } },
    storage: (files) => logged(files, work),
    sluice: { keys, access: hides },
  });
  const sealer = createSealer({ keys, audience: site.url });
  const principal = { issuer: "https://issuer.example", subject: "alice", clientId: "test" };
  return {
    site,
    urlOf(key) {
      const sealed = sealer.seal("download", {
        key,
        use: "window",
        ttlMs: 3_600_000,
        principal,
      });
      return `${site.url}/streams/${sealed.token}`;
    },
  };
}

type Ask = (key: string) => Promise<RawAnswer>;

/** Every way to ask for a resource that has an answer of its own. */
function waysOf(site: Site, urlOf: (key: string) => string): Record<string, Ask> {
  const calls = (["legacy", "modern"] as const).flatMap((era) =>
    ["resources/read", "resources/stream"].map((method): [string, Ask] => [
      `${method}, ${era}`,
      (key) => {
        const uri = `files://site/${key}`;
        const named = era === "modern" ? { "mcp-name": uri } : {};
        return call(site.url, method, { uri }, { era, token, streaming: {}, headers: named });
      },
    ]),
  );
  const urls = new Map([hidden, missing].map((key) => [key, urlOf(key)]));
  return {
    ...Object.fromEntries(calls),
    download: (key) => send("GET", urls.get(key)!, { headers }),
    "download of a range": (key) =>
      send("GET", urls.get(key)!, { headers: { ...headers, range: "bytes=1-" } }),
    HEAD: (key) => send("HEAD", urls.get(key)!, { headers }),
  };
}

/** An answer as it came, but for the clock and the name that was asked for. */
function asSeen(
  { status, headers: { date: _date, ...rest }, bytes }: RawAnswer,
  key: string,
): string {
  const text = bytes.toString("latin1").replaceAll(key, "…");
  return JSON.stringify({ status, rest, text });
}

test("a hidden resource has the response of a missing one over HTTP, to the byte, for every request", async () => {
  const { urlOf, ...started } = await start();
  await using site = started.site;
  for (const [way, ask] of Object.entries(waysOf(site, urlOf))) {
    const answer = await ask(hidden);
    expect(asSeen(answer, hidden), way).toBe(asSeen(await ask(missing), missing));
    const said = answer.message ? answer.message.error?.data?.reason : answer.status;
    expect(said, way).toBe(answer.message ? "not_found" : 404);
  }
});

test("a hidden resource costs the work of a missing one over HTTP, for every request", async () => {
  const work: string[] = [];
  const { urlOf, ...started } = await start(work);
  await using site = started.site;
  const workOf = async (ask: Ask, key: string): Promise<string[]> => {
    work.length = 0;
    await ask(key);
    // storage is asked for a name without an object in place of a hidden one
    return work.map((step) => step.replaceAll(key, "…").replace(/reports\/[\da-f-]{36}/, "…"));
  };
  const ways = waysOf(site, urlOf);
  for (const [way, ask] of Object.entries(ways)) {
    const steps = await workOf(ask, hidden);
    expect(steps.at(-1), way).toMatch(/^(describe|open) …$/);
    expect(steps, way).toEqual(await workOf(ask, missing));
  }
  // where the server looks before it answers, what may be read costs more: the count can tell
  const stream = ways["resources/stream, legacy"]!;
  expect(await workOf(stream, "reports/open.bin")).not.toEqual(await workOf(stream, missing));
});
