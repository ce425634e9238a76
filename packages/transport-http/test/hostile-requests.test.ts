import { conditionFields } from "@sluice/server/internal";
import { connect } from "node:net";
import * as fc from "fast-check";
import { createMemoryStores } from "@sluice/state";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { post, streaming } from "./call.ts";
import { serve } from "./serve.ts";

const uri = "files://demo/a.bin";
const runs = process.env["SLUICE_DEEP"] ? 100_000 : 1_000;

async function urlOf(url: string, name = uri, headers = {}): Promise<string> {
  const capabilities = streaming({ prefer: ["downloadUrl"] });
  const json = await post(url, "modern", name, { capabilities, headers });
  return ((await json.json()) as { result: { downloadUrl: string } }).result.downloadUrl;
}

/** Sends bytes as they are and gives everything that comes back until the server hangs up. */
function raw(url: string, text: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    let answer = "";
    const socket = connect(Number(port), hostname, () => socket.write(text));
    socket.setEncoding("latin1").on("data", (chunk) => void (answer += chunk));
    socket.on("error", () => {}).on("close", () => resolve(answer));
  });
}

const storage = createMemoryBackend({ "a.bin": "0123456789" });
const principal = () => ({ issuer: "i", subject: "s", clientId: "c" });

describe("Host and Origin", () => {
  test("only configured pairs pass, on both routes; others get 421 or 403 and no byte", async () => {
    const { url } = await serve({
      sluice: { storage, principal },
      http: { origins: ["https://app.example.com"] },
    });
    const { host, origin: own } = new URL(url);
    const target = new URL(await urlOf(url)).pathname;
    const hosts = {
      [host]: true,
      "localhost:1": true,
      "[::1]": true,
      "evil.example.com": false,
      "127.0.0.1.evil.example": false,
      "a b": false,
      "": false,
    };
    const origins = {
      "": true,
      [own]: true,
      "https://app.example.com": true,
      null: false,
      "https://evil.example.com": false,
      "https://app.example.com.evil.example": false,
      "http://app.example.com": false,
    };
    for (const [name, isHost] of Object.entries(hosts))
      for (const [origin, isOrigin] of Object.entries(origins)) {
        const answer = await raw(
          url,
          `GET ${target} HTTP/1.1\r\nHost: ${name}\r\n${origin && `Origin: ${origin}\r\n`}Connection: close\r\n\r\n`,
        );
        const expected = isHost ? (isOrigin ? 200 : 403) : 421;
        expect([name, origin, answer.slice(9, 12)]).toEqual([name, origin, String(expected)]);
        expect(answer.includes("0123456789")).toBe(expected === 200);
      }
    const direct = await post(url, "modern", uri, {
      headers: { origin: "https://evil.example.com" },
    });
    expect([direct.status, await direct.text()]).toEqual([
      403,
      expect.not.stringContaining("0123456789"),
    ]);
  });

  test("an allowed origin may read the answer and its headers, also in a preflight; no other origin may", async () => {
    const origin = "https://app.example.com";
    const { url } = await serve({ sluice: { storage, principal }, http: { origins: [origin] } });
    const target = await urlOf(url);
    const answer = await fetch(target, { headers: { origin } });
    expect(answer.headers.get("access-control-allow-origin")).toBe(origin);
    expect(answer.headers.get("access-control-expose-headers")).toContain("MCP-Resource-Uri");
    expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
    const headers = { origin, "access-control-request-method": "GET" };
    const preflight = await fetch(target, { method: "OPTIONS", headers });
    expect(preflight.status).toBe(204);
    const allowed = preflight.headers.get("access-control-allow-headers")!.split(", ");
    for (const field of ["Range", "If-Range", ...conditionFields]) expect(allowed).toContain(field);
    expect(allowed).toContain("If-Match");
    const refused = await fetch(target, { method: "POST" });
    expect([refused.status, refused.headers.get("allow")]).toEqual([
      405,
      preflight.headers.get("allow"),
    ]);
    expect((await fetch(target)).headers.get("access-control-allow-origin")).toBeNull();
  });

  test("a URL that is itself the permission may be used by every page, without credentials", async () => {
    const { url, sluice } = await serve({
      sluice: { storage, grant: { use: "window" }, links: {}, stores: createMemoryStores() },
    });
    const caller = { header: () => undefined };
    const link = await sluice.link(uri, { caller });
    for (const target of [link.url, await urlOf(url)])
      for (const origin of ["null", "https://x.claudemcpcontent.com"]) {
        const answer = await fetch(target, { headers: { origin } });
        expect([answer.status, await answer.text()]).toEqual([200, "0123456789"]);
        expect(answer.headers.get("access-control-allow-origin")).toBe("*");
        expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
        const preflight = await fetch(target, {
          method: "OPTIONS",
          headers: {
            origin,
            "access-control-request-method": "GET",
            "access-control-request-headers": "range",
          },
        });
        expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([
          204,
          "*",
        ]);
        expect(preflight.headers.get("access-control-allow-headers")).toContain("Range");
      }
    const made = await fetch(`${url}/d/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA`, {
      headers: { origin: "null" },
    });
    expect(made.status).toBe(404);
    const forged = await fetch(`${url}/streams/v1.k1.${"A".repeat(246)}`, {
      headers: { origin: "null" },
    });
    expect(forged.status).toBe(403);
    const wrongHost = await raw(
      url,
      `GET ${new URL(link.url).pathname} HTTP/1.1\r\nHost: evil.example.com\r\nOrigin: null\r\nConnection: close\r\n\r\n`,
    );
    expect(wrongHost.slice(9, 12)).toBe("421");
  });
});

test("other methods are 405 with what is allowed, and use nothing up", async () => {
  const { url } = await serve({ sluice: { storage, grant: { use: "once" } } });
  const target = await urlOf(url);
  for (const method of ["POST", "PUT", "DELETE", "PATCH"]) {
    const { status, headers } = await fetch(target, { method });
    expect([status, headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
  }
  await fetch(target, { method: "OPTIONS" });
  await fetch(target, { method: "HEAD" });
  expect((await fetch(target)).status).toBe(200);
  expect((await fetch(target)).status).toBe(404);
});

test("every 404 is the same to the byte over the wire, too", async () => {
  const { url } = await serve({ sluice: { storage, grant: { use: "once" } } });
  const good = new URL(await urlOf(url)).pathname;
  await fetch(new URL(good, url));
  const prefix = good.slice(0, good.lastIndexOf("/") + 1);
  const targets = [
    good,
    `${good}x`,
    `${good}/x`,
    `${good}?x`,
    prefix,
    prefix.slice(0, -1),
    good.replace("v1", "v2"),
    `${prefix}${"A".repeat(3_000)}`,
    good.replace(/.$/, "%41"),
  ];
  const answers = await Promise.all(
    targets.map((target) =>
      raw(url, `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`),
    ),
  );
  const plain = answers.map((answer) => answer.replace(/^date: .*$/im, ""));
  expect(plain[0]).toMatch(/^HTTP\/1\.1 404 /);
  expect(new Set(plain).size).toBe(1);
});

test("a range of many parts opens the object once and is one whole answer", async () => {
  const { url, records } = await serve({ sluice: { storage } });
  const range = `bytes=${Array.from({ length: 1_300 }, (_, at) => `${at}-`).join(",")}`;
  const answer = await fetch(await urlOf(url), { headers: { range } });
  expect([answer.status, await answer.text()]).toEqual([200, "0123456789"]);
  await expect.poll(() => records).toHaveLength(2);
});

test("hostile header names and values leave the server standing", { tags: "slow" }, async () => {
  const { url, errors } = await serve({ sluice: { storage, grant: { use: "window" } } });
  const { pathname } = new URL(await urlOf(url));
  const names = [
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "__defineGetter__",
    "range",
    "if-range",
    "if-none-match",
    "authorization",
    "mcp-session-id",
    "origin",
  ];
  const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}$/);
  const value = fc.stringMatching(/^[\t\x20-\x7e\x80-\xff]{0,40}$/);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.oneof(token, fc.constantFrom(...names)), value), { maxLength: 12 }),
      async (headers) => {
        const lines = headers.map(([name, text]) => `${name}: ${text}\r\n`).join("");
        await raw(
          url,
          Buffer.from(
            `GET ${pathname} HTTP/1.1\r\nHost: localhost\r\n${lines}Connection: close\r\n\r\n`,
            "latin1",
          ).toString("latin1"),
        );
      },
    ),
    { numRuns: runs / 10 },
  );
  expect((await fetch(new URL(pathname, url))).status).toBe(200);
  expect(errors).toEqual([]);
});
