import { createKeyRing, createSealer, generateKey } from "@sluice/core";
import type { AccessRule } from "@sluice/server";
import { describe, expect, test } from "vitest";
import { call, send, type RawAnswer } from "../bed/raw.ts";
import { startSite, type Site } from "../bed/site.ts";

const samples = 10_000;
const warmUp = 500;
const hidden = "reports/secret.bin";
const missing = "reports/absent.bin";
const token = "alice-token";
const headers = { authorization: `Bearer ${token}` };

const hides: AccessRule = (_principal, uri) => (uri.endsWith(hidden) ? "hide" : "allow");

async function start(): Promise<{ site: Site; urlOf: (key: string) => string }> {
  const keys = createKeyRing([generateKey()]);
  const site = await startSite({
    files: { [hidden]: "secret", "reports/open.bin": "open" },
    accounts: { [token]: { subject: "alice" } },
    sluice: { keys, access: hides },
  });
  const sealer = createSealer({ keys, audience: site.url });
  const principal = { issuer: "https://issuer.example", subject: "alice", clientId: "test" };
  return {
    site,
    urlOf(key) {
      const sealed = sealer.seal("download", {
        handle: key,
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

test("over HTTP, what is hidden is answered like what is missing, to the byte, however it is asked for", async () => {
  const { urlOf, ...started } = await start();
  await using site = started.site;
  for (const [way, ask] of Object.entries(waysOf(site, urlOf))) {
    const answer = await ask(hidden);
    expect(asSeen(answer, hidden), way).toBe(asSeen(await ask(missing), missing));
    const said = answer.message ? answer.message.error?.data?.reason : answer.status;
    expect(said, way).toBe(answer.message ? "not_found" : 404);
  }
});

function medianOf(values: Float64Array): number {
  const sorted = values.toSorted();
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

/** Median times of two resources, asked for in turn: by how much, and in which direction, they differ. */
async function differenceOf(
  ask: Ask,
  [one, other]: readonly [string, string],
  count: number,
): Promise<{ difference: number; text: string }> {
  const times = new Map([one, other].map((key) => [key, new Float64Array(count)]));
  for (let n = -warmUp; n < count; n++) {
    // whoever is second profits from what the first left warm
    const order = Math.random() < 0.5 ? [one, other] : [other, one];
    for (const key of order) {
      const begun = performance.now();
      await ask(key);
      if (n >= 0) times.get(key)![n] = performance.now() - begun;
    }
  }
  const [first, second] = [one, other].map((key) => medianOf(times.get(key)!)) as [number, number];
  const difference = first / second - 1;
  const text = `${first.toFixed(4)} and ${second.toFixed(4)} ms, ${(difference * 100).toFixed(2)} %`;
  return { difference, text };
}

if (!process.env["SLUICE_DEEP"])
  console.log(`hidden: ${samples} timed samples of each kind are for SLUICE_DEEP=1`);
describe.runIf(process.env["SLUICE_DEEP"])("the median time of an answer", () => {
  const timeout = 3_600_000;

  test("tells what is hidden from what is missing by less than 5 %", { timeout }, async () => {
    const { urlOf, ...started } = await start();
    await using site = started.site;
    for (const [way, ask] of Object.entries(waysOf(site, urlOf))) {
      const { difference, text } = await differenceOf(ask, [hidden, missing], samples);
      console.log(`${way}: hidden and missing take ${text}`);
      expect(Math.abs(difference), way).toBeLessThan(0.05);
    }
  });

  test(
    "tells what may be read from what is missing: so the measure can tell",
    { timeout },
    async () => {
      const { urlOf, ...started } = await start();
      await using site = started.site;
      const ask = waysOf(site, urlOf)["resources/read, legacy"]!;
      const { difference, text } = await differenceOf(ask, ["reports/open.bin", missing], 2_000);
      console.log(`open and missing take ${text}`);
      expect(Math.abs(difference)).toBeGreaterThan(0.05);
    },
  );
});
