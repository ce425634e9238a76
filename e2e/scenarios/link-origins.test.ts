// @module-tag slow
// Sandboxed applications in hosts have an origin of nothing: they fetch links and fill slots, and nothing that is bound to a user.
import { createServer } from "node:http";
import type { Uploads } from "@sluice/uploads";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasBrowser, startBrowser } from "../bed/browser.ts";
import { linkTo, startLinkSite } from "../bed/links.ts";
import { listen } from "../bed/listen.ts";
import { call, send } from "../bed/raw.ts";
import { baseUri, type Site } from "../bed/site.ts";

if (!hasBrowser)
  console.log("no Chromium: no page of an opaque origin is opened (apt-get install chromium)");

const token = "alice-token";
const content = "secret plans";
const alice = { issuer: "https://issuer.example", subject: "alice", clientId: "test" };
const terms = { accept: [], maxBytes: 1_000, maxFiles: 9 };

let site: Site;
let uploads: Uploads;
/** URLs by whether they are themselves the permission. */
let open: { readonly link: string; readonly slot: string };
let bound: { readonly stream: string; readonly slot: string; readonly endpoint: string };

beforeAll(async () => {
  site = await startLinkSite({
    files: { "plans.txt": content },
    accounts: { [token]: { subject: "alice" } },
    asking: (_, asked) => (uploads = asked),
    sluice: { delivery: "downloadUrl" },
  });
  const { download_url: link } = await linkTo(site, "plans.txt", { token });
  const params = { uri: `${baseUri}plans.txt` };
  const { message } = await call(site.url, "resources/stream", params, { streaming: {}, token });
  const slotUrl = async (selfAuthenticating: boolean): Promise<string> =>
    (await uploads.reserve(alice, terms, { selfAuthenticating })).url;
  open = { link, slot: await slotUrl(true) };
  bound = {
    stream: String(message?.result?.["downloadUrl"]),
    slot: await slotUrl(false),
    endpoint: site.url,
  };
});
afterAll(() => site[Symbol.asyncDispose]());

describe.each(["null", "https://x.claudemcpcontent.com"])("from origin %s", (origin) => {
  const asks = (method: string, url: string, headers: Record<string, string> = {}) =>
    fetch(url, {
      method,
      headers: { ...headers, origin },
      body: method === "PUT" ? "a file" : null,
    });
  const preflight = (url: string, method: string, headers: string) =>
    asks("OPTIONS", url, {
      "access-control-request-method": method,
      "access-control-request-headers": headers,
    });
  const seen = ({ status, headers }: Response) => [
    status,
    headers.get("access-control-allow-origin"),
    headers.get("access-control-allow-credentials"),
  ];

  test("a link and a slot may be used by all, without credentials", async () => {
    expect(seen(await asks("GET", open.link))).toEqual([200, "*", null]);
    expect(seen(await asks("HEAD", open.link))).toEqual([200, "*", null]);
    expect(seen(await asks("GET", open.link, { range: "bytes=1-2" }))).toEqual([206, "*", null]);
    expect(seen(await asks("PUT", open.slot))).toEqual([201, "*", null]);
    // a page can read that its link is over
    expect(seen(await asks("GET", `${site.url}/d/${"A".repeat(32)}`))).toEqual([404, "*", null]);
  });

  test("a preflight says so, and a link takes no Authorization header", async () => {
    for (const [url, method, headers] of [
      [open.link, "GET", "range"],
      [open.slot, "PUT", "content-type"],
      [open.slot, "PATCH", "upload-offset"],
    ] as const) {
      const answer = await preflight(url, method, headers);
      expect(seen(answer)).toEqual([204, "*", null]);
      expect(answer.headers.get("access-control-allow-methods")).toContain(method);
      const allowed = answer.headers.get("access-control-allow-headers")!.toLowerCase();
      expect(allowed).toContain(headers);
      expect(allowed).not.toContain("*");
      expect(url === open.link && allowed.includes("authorization")).toBe(false);
    }
  });

  test("a URL bound to a user is refused, with its token too", async () => {
    const authorization = `Bearer ${token}`;
    for (const url of Object.values(bound)) {
      expect(seen(await preflight(url, "GET", "authorization"))).toEqual([403, null, null]);
      expect(seen(await asks("GET", url, { authorization }))).toEqual([403, null, null]);
      expect(seen(await asks("PUT", url, { authorization }))).toEqual([403, null, null]);
    }
  });

  test("a link and a slot under another name of the host are refused, as rebinding needs", async () => {
    for (const [method, url] of [
      ["GET", open.link],
      ["PUT", open.slot],
    ] as const)
      expect((await send(method, url, { headers: { origin, host: "evil.example" } })).status).toBe(
        421,
      );
  });
});

test("the token of the account works where no page asks", async () => {
  const { status, bytes } = await send("GET", bound.stream, {
    headers: { authorization: `Bearer ${token}` },
  });
  expect([status, bytes.toString()]).toEqual([200, content]);
});

test.skipIf(!hasBrowser)(
  "a sandboxed frame in Chromium fetches a link, its ranges, and fills a slot; nothing else",
  async () => {
    const frames = `<!doctype html><iframe sandbox="allow-scripts" srcdoc="an app"></iframe>`;
    const host = await listen(
      createServer((_, response) => response.setHeader("content-type", "text/html").end(frames)),
    );
    const browser = await startBrowser();
    try {
      const page = await browser.newPage();
      await page.goto(host.origin);
      const frame = page.frames().at(-1)!;
      const said = await frame.evaluate(
        async ([link, slot, stream]) => {
          const tell = async (promise: Promise<Response>): Promise<string> =>
            promise.then(
              async (response) => `${response.status} ${await response.text()}`,
              (error: Error) => error.name,
            );
          const headers = { authorization: "Bearer alice-token" };
          return {
            origin: String(Reflect.get(globalThis, "origin")),
            whole: await tell(fetch(link!)),
            range: await tell(fetch(link!, { headers: { range: "bytes=7-" } })),
            sent: (await tell(fetch(slot!, { method: "PUT", body: "a file" }))).slice(0, 3),
            withCredentials: await tell(fetch(link!, { credentials: "include" })),
            bound: await tell(fetch(stream!)),
            withToken: await tell(fetch(stream!, { headers })),
          };
        },
        [open.link, open.slot, bound.stream],
      );
      expect(said).toEqual({
        origin: "null",
        whole: `200 ${content}`,
        range: "206 plans",
        sent: "201",
        withCredentials: "TypeError",
        bound: "TypeError",
        withToken: "TypeError",
      });
    } finally {
      await browser.close();
      await host.close();
    }
  },
);
