import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { request, type IncomingMessage } from "node:http";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { listenHere, serveHere } from "./run-here.ts";
import { freePort, type Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const hostileName = `<img src=x onerror=alert(1)>&"'.html`;
const isRoot = process.getuid?.() === 0;
if (isRoot) console.log("browse: the administrator reads every file, so none is unreadable here");
let root = "";
let files = "";
let served: Served;
let origin = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-browse-"));
  files = join(root, "files");
  await mkdir(join(files, "zeta/deep"), { recursive: true });
  await mkdir(join(files, ".git"));
  await writeFile(join(files, "a.txt"), "text");
  await writeFile(join(files, hostileName), "<script>alert(1)</script>");
  await writeFile(join(files, "picture.svg"), "<svg xmlns='http://www.w3.org/2000/svg'/>");
  await writeFile(join(files, "zeta/deep/b.txt"), "deep");
  await writeFile(join(files, ".env"), "SECRET=1");
  await writeFile(join(files, ".git/config"), "secret");
  await writeFile(join(files, "locked.txt"), "secret");
  await chmod(join(files, "locked.txt"), 0);
  await symlink(join(root, "outside.txt"), join(files, "way-out.txt"));
  await writeFile(join(root, "outside.txt"), "outside");
  served = await serveHere(files);
  ({ origin } = new URL(served.url));
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

/** A request with exactly these header fields. */
async function get(target: string, headers: Record<string, string> = {}, method = "GET") {
  const sent = request(`${origin}${target}`, { headers, method, agent: false }).end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

const uriOf = (key: string): string => `files://local/${encodeURI(key)}`;
/** The target that opens a file, and that of a folder. */
const opening = (key: string): string =>
  `/?${new URLSearchParams({ open: uriOf(key) }).toString()}`;
const folderOf = (key: string): string =>
  `/?${new URLSearchParams({ folder: uriOf(key) }).toString()}`;

/** Targets of the links of a page. */
function linksOf(html: string): string[] {
  return [...html.matchAll(/href="([^"]*)"/g)].map(([, link]) =>
    link!.replaceAll("&amp;", "&").replaceAll("&#39;", "'"),
  );
}

test("the list has folders first, sizes and times, and only what a client may see", async () => {
  const { status, headers, body } = await get("/");
  expect(status).toBe(200);
  expect(headers["content-type"]).toBe("text/html; charset=utf-8");
  const names = [...body.matchAll(/class="name"><bdi>([^<]*)<\/bdi>/g)].map(([, name]) => name);
  const shown = isRoot ? ["locked.txt"] : [];
  expect(names).toEqual([
    "zeta",
    expect.stringContaining("&lt;img"),
    "a.txt",
    ...shown,
    "picture.svg",
  ]);
  expect(body).toMatch(
    />4 bytes<\/td><td role="cell"><time [^>]+>\d{4}-\d\d-\d\d \d\d:\d\d<\/time>/,
  );
  for (const hidden of [".env", ".git", "way-out"]) expect(body).not.toContain(hidden);
});

test("nothing that a name says is HTML, and the page runs nothing but its own script", async () => {
  const { headers, body } = await get("/");
  expect(body).not.toMatch(
    /<img|onerror=alert\(1\)>|<script(?! type="module" src="\/mcp\/files-page\/)/,
  );
  expect(headers["content-security-policy"]).toMatch(
    /^default-src 'none'; script-src 'nonce-[^']{22}'; style-src 'nonce-[^']{22}'; .*frame-ancestors 'none'; /,
  );
  expect(headers["x-content-type-options"]).toBe("nosniff");
});

test("folders lead to their own lists, and back", async () => {
  const pages = async (target: string) =>
    linksOf((await get(target)).body).filter((link) => link.startsWith("/?") || link === "/");
  const [first = ""] = await pages("/");
  expect(await pages(first)).toEqual(["/", folderOf("zeta/deep/")]);
  expect(await pages(folderOf("zeta/deep/"))).toEqual([
    "/",
    folderOf("zeta/"),
    opening("zeta/deep/b.txt"),
    opening("zeta/deep/b.txt").replace("open", "download"),
  ]);
});

test("a click makes a link to the bytes, which shows what is safe", async () => {
  const clicked = await get(opening("a.txt"), { "sec-fetch-site": "same-origin" });
  expect(clicked.status).toBe(302);
  const link = String(clicked.headers.location);
  expect(link).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp\/d\/[\w-]{32}$/);
  const shown = await fetch(link);
  expect(await shown.text()).toBe("text");
  expect(shown.headers.get("content-disposition")).toMatch(/^inline/);
  // each click makes its own
  expect((await get(opening("a.txt"))).headers.location).not.toBe(link);
});

test.each([[hostileName], ["picture.svg"]])("%s is never run", async (name) => {
  const { headers } = await get(opening(name));
  const opened = await fetch(String(headers.location));
  expect(opened.headers.get("content-type")).toBe("application/octet-stream");
});

test.each(["cross-site", "same-site"])("a page elsewhere (%s) makes no link", async (site) => {
  const { status, headers } = await get(opening("a.txt"), { "sec-fetch-site": site });
  expect([status, headers.location]).toEqual([403, undefined]);
});

test.each(["cross-site", "same-site"])(
  "a page elsewhere (%s) causes no listing unseen",
  async (site) => {
    for (const dest of ["image", "iframe", "empty", "script"]) {
      const { status } = await get("/", { "sec-fetch-site": site, "sec-fetch-dest": dest });
      expect(status).toBe(403);
    }
    const followed = { "sec-fetch-site": site, "sec-fetch-dest": "document" };
    expect((await get("/", followed)).status).toBe(200);
  },
);

test.each([
  ["another host", { host: "evil.example" }, 421],
  ["another origin", { origin: "https://evil.example" }, 403],
])("%s gets no list and no link", async (_, headers, status) => {
  for (const target of ["/", opening("a.txt")])
    expect((await get(target, headers)).status).toBe(status);
});

test.each([
  opening(".env"),
  opening(".git/config"),
  opening("way-out.txt"),
  opening("../outside.txt"),
  opening("a.txt%00"),
  opening("zeta"),
  "/?open=%2Fetc%2Fpasswd",
  "/?open=file%3A%2F%2F%2Fetc%2Fpasswd",
  "/?open=",
  "/?download=files%3A%2F%2Flocal%2F.env",
  "/?link=files%3A%2F%2Flocal%2F.env",
  "/?link=",
  "/open",
  folderOf("zeta"),
  "/?folder=zeta%2F",
  "/?folder=..%2F",
  "/?folder=files%3A%2F%2Flocal%2F..%2F",
  "/?folder=",
  "/?after=made-up",
])("%s is 404", async (target) => {
  const { status, headers } = await get(target);
  expect([status, headers.location]).toEqual([404, undefined]);
});

test.each([folderOf(".git/"), folderOf("nothing/")])("%s shows nothing", async (target) => {
  const { body } = await get(target);
  expect(linksOf(body).filter((link) => /open|download/.test(link))).toEqual([]);
  expect(body).not.toMatch(/config|outside\.txt/);
});

test("other methods are refused", async () => {
  expect((await get("/", {}, "POST")).status).toBe(405);
  expect((await get(opening("a.txt"), {}, "POST")).status).toBe(405);
});

test.each([
  ["a token", { SLUICE_TOKEN: "correct-horse-battery-staple" }, [], "127.0.0.1"],
  [
    "a public address",
    {},
    ["--allow-anonymous", "--public-url", "https://files.example.com/mcp"],
    "files.example.com",
  ],
])("with %s there is no list and no link", async (_, env, args, host) => {
  const port = await freePort();
  const other = await serveHere(files, [...args, "--port", String(port)], { env: { ...env } });
  for (const path of ["/", opening("a.txt")]) {
    const sent = request({ host: "127.0.0.1", port, path, headers: { host }, agent: false }).end();
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    response.resume();
    expect(response.statusCode).toBe(404);
  }
  expect((await other.end()).stderr).not.toContain("in a browser");
});

test("the endpoint leads a browser to the list, for serve, and says its address for a bridge", async () => {
  const accept = "text/html,*/*;q=0.8";
  const own = await get("/mcp", { accept });
  expect([own.status, own.headers.location]).toEqual([302, `${origin}/`]);
  expect((await get("/")).body).toContain(`<code>${served.url}</code>`);
  const bridge = await listenHere(["bridge", "--http", "--port", "0", served.url]);
  try {
    const other = await (await fetch(bridge.url, { headers: { accept } })).text();
    expect(other).toContain(`<code>${bridge.url}</code>`);
    expect(linksOf(other)).toEqual([]);
  } finally {
    await bridge.end();
  }
});

test.each([
  ["serve", (page: string) => serveHere(files, ["--origin", page])],
  [
    "bridge --http",
    (page: string) => listenHere(["bridge", "--http", "--port", "0", "--origin", page, served.url]),
  ],
])(
  "%s: pages of an origin that --origin names may use it, and a 403 says how",
  async (_, start) => {
    const inspector = "http://localhost:6274";
    const own = await start(inspector);
    try {
      const preflight = (from: string): Promise<Response> =>
        fetch(own.url, {
          method: "OPTIONS",
          headers: { origin: from, "access-control-request-method": "POST" },
        });
      const { status, headers } = await preflight(inspector);
      expect([status, headers.get("access-control-allow-origin")]).toEqual([204, inspector]);
      const lists = (from: string) =>
        `pages of ${from} may not use this endpoint; list that origin in the option origins (sluice serve, sluice bridge --http: --origin ${from})`;
      const hasNone =
        "pages without an origin of their own may not use this endpoint: their address must be http or https";
      for (const [other, detail] of [
        ["http://localhost:6275", lists("http://localhost:6275")],
        ["http://127.0.0.1:6274", lists("http://127.0.0.1:6274")],
        ["http://localhost:6274/", hasNone],
        ["null", hasNone],
      ] as const) {
        const refused = await preflight(other);
        expect(refused.status).toBe(403);
        expect(refused.headers.get("access-control-allow-origin")).toBeNull();
        expect(await refused.json()).toMatchObject({ detail });
      }
    } finally {
      await own.end();
    }
  },
);
