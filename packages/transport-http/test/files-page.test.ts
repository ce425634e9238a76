import { createMemoryBackend } from "@sluice/storage";
import { createSluice } from "@sluice/server";
import { afterEach, describe, expect, test } from "vitest";
import { createHandler, type FilesPageOptions, type SluiceHandler } from "../src/index.ts";
import { toNodeHandler } from "../src/node.ts";
import { bundle } from "../page/build.mjs";
import { csvLimits, csvRows } from "../page/csv.ts";
import { script, style } from "../src/page/browser-files.ts";
import { countText } from "../src/page/count-text.ts";
import { extensionMark, nameHtml, nameText } from "../src/page/name-html.ts";
import { hostileNames } from "./hostile-names.ts";

const origin = "https://files.example";
const files = {
  "a.txt": "text",
  "b.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
  "sub/c.txt": "below",
  "sub/deep/d.txt": "deep",
} as const;
const errors: unknown[] = [];
afterEach(() => void errors.splice(0));

type Site = (target: string, init?: RequestInit) => Promise<Response>;

function siteOf(filesPage: FilesPageOptions | true = true, options: object = {}): Site {
  const sluice = createSluice({
    storage: createMemoryBackend(files),
    baseUri: "files://demo/",
    endpoint: `${origin}/mcp`,
    keys: "ephemeral",
    anonymous: true,
    links: true,
    onWarning: () => {},
    onError: (error) => void errors.push(error),
    ...options,
  });
  const handler = createHandler({ sluice, filesPage });
  return async (target, init) =>
    handler.fetch(new Request(origin + target, { redirect: "manual", ...init }));
}

const query = (parts: Record<string, string>): string =>
  `/?${new URLSearchParams(parts).toString()}`;
const namesIn = (html: string): string[] =>
  [...html.matchAll(/class="name"><bdi>(.*?)<\/bdi>/g)].map(([, name]) => name!);

test("script and style are what the files of the page compile to", { tags: "slow" }, async () => {
  const built = await bundle();
  expect(built.script === script, "run node packages/transport-http/page/build.mjs").toBe(true);
  expect(built.style === style, "run node packages/transport-http/page/build.mjs").toBe(true);
});

test("a folder shows where it is, what is in it, and how much", async () => {
  const html = await (
    await siteOf({ name: "Team files" })(query({ folder: "files://demo/sub/" }))
  ).text();
  expect(namesIn(html)).toEqual(["deep", "c.txt"]);
  expect(html).toMatch(/<a href="\/"><bdi>Team files<\/bdi><\/a>/);
  expect(html).toMatch(/<title>sub – Team files<\/title>/);
  expect(html).toContain("1 folder, 1 file, 5 bytes");
});

test("the page runs its own script, loads from its own server, and is framed by nobody", async () => {
  const site = siteOf();
  const [one, other] = [await site("/"), await site("/")];
  const policy = one.headers.get("content-security-policy")!;
  const [nonce] = /'nonce-[^']+'/.exec(policy)!;
  expect(policy.replaceAll(nonce, "'nonce'")).toBe(
    `default-src 'none'; script-src 'nonce'; style-src 'nonce'; connect-src 'self' ${origin}; img-src 'self' blob: ${origin}; media-src 'self' ${origin}; frame-src blob: 'self' ${origin}; form-action 'self' ${origin}; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'`,
  );
  expect(other.headers.get("content-security-policy")).not.toContain(nonce);
  expect(Object.fromEntries(one.headers)).toMatchObject({
    "cache-control": "private, no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
  });
  const html = await one.text();
  expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:/i);
  const assets = [...html.matchAll(/(?:href|src)="(\/mcp\/files-page\/[^"]+)"/g)];
  expect(assets).toHaveLength(3);
  for (const [, path] of assets) {
    const asset = await site(path!);
    expect([asset.status, asset.headers.get("cache-control")]).toEqual([
      200,
      "public, max-age=31536000, immutable",
    ]);
  }
  expect((await site("/mcp/files-page/page-0000000000000000.js")).status).toBe(404);
});

describe("names", () => {
  test.each(hostileNames)("%j reads as what it is", (name, shown) => {
    const text = nameHtml(name)
      .text.replace(/<\/?(?:bdi|span)(?: class="code")?>/g, "")
      .replaceAll("&lt;", "<")
      .replaceAll("&gt;", ">")
      .replaceAll("&quot;", '"')
      .replaceAll("&#39;", "'")
      .replaceAll("&amp;", "&");
    expect(text).toBe(shown);
  });

  test("no two of them read the same, as a title either", () => {
    const all = hostileNames.map(([name]) => name);
    expect(new Set(all.map((name) => nameHtml(name).text)).size).toBe(all.length);
    expect(new Set(all.map(nameText)).size).toBe(all.length);
    const shown = all.map((name) => nameHtml(name).text.replace(/<\/?span[^>]*>/g, ""));
    expect(new Set(shown).size).toBe(all.length);
  });

  test("a page of them has no element but its own", async () => {
    const named = Object.fromEntries(hostileNames.map(([name]) => [name, "x"]));
    const html = await (await siteOf(true, { storage: createMemoryBackend(named) })("/")).text();
    const tags = [...html.matchAll(/<([a-z!][\w-]*)/gi)].map(([, tag]) => tag!.toLowerCase());
    const own =
      "!doctype html head meta title link script body main header p span div h1 bdi label input table thead tr th tbody td a time footer code";
    expect(new Set(tags)).toEqual(new Set(own.split(" ")));
    expect(namesIn(html)).toHaveLength(hostileNames.length);
  });

  test("a page that does not escape is seen to have elements of a name in it", () => {
    const careless = nameHtml("<img src=x>").text.replaceAll("&lt;", "<");
    expect(careless).toMatch(/<img/);
    expect(nameHtml("<img src=x>").text).not.toMatch(/<img/);
  });

  test.each([
    ["report.PDF", "PDF"],
    ["archive.tar.gz", "GZ"],
    [".env", ""],
    ["name", ""],
    ["a.<b>", ""],
    ["a.toolong", ""],
  ])("the mark of %s is %j", (name, mark) => expect(extensionMark(name)).toBe(mark));
});

test.each([
  ["open", "inline"],
  ["download", "attachment"],
])("%s leads to a link that a browser takes as %s", async (action, disposition) => {
  const site = siteOf();
  const led = await site(query({ [action]: "files://demo/a.txt" }));
  expect(led.status).toBe(302);
  const link = led.headers.get("location")!;
  const got = await site(link.slice(origin.length));
  expect(await got.text()).toBe("text");
  expect(got.headers.get("content-disposition")).toMatch(new RegExp(`^${disposition}`));
});

test("the script gets a link with its end and what the file is", async () => {
  const site = siteOf();
  const answer = await site(query({ link: "files://demo/a.txt" }));
  const link = (await answer.json()) as { url: string; expiresAt: number };
  expect(link).toMatchObject({ mimeType: "text/plain", size: 4 });
  expect(link.expiresAt).toBeGreaterThan(Date.now());
  expect(await (await site(link.url.slice(origin.length))).text()).toBe("text");
});

test("a type that a browser may run is sent as octets, also from the page", async () => {
  const site = siteOf();
  const led = await site(query({ open: "files://demo/b.svg" }));
  const got = await site(led.headers.get("location")!.slice(origin.length));
  expect(got.headers.get("content-type")).toBe("application/octet-stream");
});

test.each(["open", "download", "link"])("another site gets nothing by %s", async (action) => {
  for (const from of ["cross-site", "same-site"]) {
    const headers = { "sec-fetch-site": from, "sec-fetch-dest": "document" };
    const { status } = await siteOf()(query({ [action]: "files://demo/a.txt" }), { headers });
    expect(status).toBe(403);
  }
});

describe("a caller", () => {
  const ann = { issuer: "https://id.example", subject: "ann", clientId: "web" };
  const options = {
    anonymous: false,
    principal: ({ header }: { header: (name: string) => string | undefined }) =>
      header("cookie") === "session=ann" ? ann : undefined,
    access: (_: unknown, uri: string) => (uri.endsWith("c.txt") ? "deny" : "allow"),
  };
  const cookie = { headers: { cookie: "session=ann" } };

  test("sees what it may list, and only that", async () => {
    const site = siteOf(true, options);
    const html = await (await site(query({ folder: "files://demo/sub/" }), cookie)).text();
    expect(namesIn(html)).toEqual(["deep"]);
    expect((await site(query({ open: "files://demo/sub/c.txt" }), cookie)).status).toBe(404);
    expect((await site(query({ open: "files://demo/a.txt" }), cookie)).status).toBe(302);
  });

  test("without a principal is asked to sign in, and sees no name", async () => {
    const answer = await siteOf(true, options)("/");
    expect(answer.status).toBe(401);
    expect(await answer.text()).not.toContain("a.txt");
  });
});

test("several storages are folders of the top", async () => {
  const site = siteOf(true, {
    storage: undefined,
    baseUri: undefined,
    mounts: [
      { baseUri: "files://one/", storage: createMemoryBackend({ "x.txt": "" }) },
      { baseUri: "files://two/", storage: createMemoryBackend({ "in/y.txt": "" }) },
    ],
  });
  expect(namesIn(await (await site("/")).text())).toEqual(["files://one/", "files://two/"]);
  const html = await (await site(query({ folder: "files://two/in/" }))).text();
  expect(namesIn(html)).toEqual(["y.txt"]);
  expect(html).toContain(`href="/?folder=files%3A%2F%2Ftwo%2F"`);
});

test("a large folder comes in pages that have everything once, and whose cursor opens no other", async () => {
  const many = Array.from({ length: 2_700 }, (_, at) => [`sub/${at}.txt`, ""]);
  const storage = createMemoryBackend(Object.fromEntries([...many, ["sub/inner/x.txt", ""]]));
  const site = siteOf(true, { storage });
  const seen: string[] = [];
  let target: string | undefined = query({ folder: "files://demo/sub/" });
  let pages = 0;
  let cursor = "";
  while (target !== undefined) {
    const html: string = await (await site(target)).text();
    seen.push(...namesIn(html));
    target = /id="more" href="([^"]+)"/.exec(html)?.[1]?.replaceAll("&amp;", "&");
    if (target !== undefined) cursor = new URLSearchParams(target.slice(2)).get("after")!;
    pages += 1;
  }
  expect(pages).toBe(4);
  expect(seen.filter((name) => name !== "inner").toSorted()).toEqual(
    many.map(([name]) => name!.slice(4)).toSorted(),
  );
  expect((await site(query({ folder: "files://demo/", after: cursor }))).status).toBe(404);
});

test("an empty folder says so, and a storage that fails gives a page without its words", async () => {
  const site = siteOf();
  expect(await (await site(query({ folder: "files://demo/none/" }))).text()).toContain(
    "This folder is empty.",
  );
  const storage = {
    ...createMemoryBackend(),
    list: () => Promise.reject(new Error("secret of the storage")),
  };
  const failing = await siteOf(true, { storage })("/");
  expect(failing.status).toBe(500);
  expect(await failing.text()).toMatch(/Not available right now(?!.*secret)/s);
  expect(errors).toHaveLength(1);
});

test("a browser that goes away is not a fault of the server", async () => {
  const gone = new AbortController();
  const storage = {
    ...createMemoryBackend(),
    list: async () => {
      gone.abort();
      throw gone.signal.reason;
    },
  };
  const { status } = await siteOf(true, { storage })("/", { signal: gone.signal });
  expect([status, errors]).toEqual([503, []]);
});

test("a folder is downloaded as the archive that the author names", async () => {
  const archive = (folder: string): string => `${folder.replace("files", "zip")}all.zip`;
  const html = await (await siteOf({ archive })(query({ folder: "files://demo/sub/" }))).text();
  expect(html).toContain(`href="/?download=zip%3A%2F%2Fdemo%2Fsub%2Fall.zip"`);
  expect(await (await siteOf()("/")).text()).not.toContain("Download all");
});

describe("sending files", () => {
  const upload = async (): Promise<string> => `${origin}/mcp/upload-page/x`;

  test("leads to the page of the server's author", async () => {
    const site = siteOf({ upload });
    expect(await (await site("/")).text()).toContain("Send files");
    const led = await site("/", { method: "POST" });
    expect([led.status, led.headers.get("location")]).toEqual([303, await upload()]);
  });

  test.each([
    ["PUT", "/", "GET, HEAD, POST"],
    ["HEAD", "/?link=files%3A%2F%2Fdemo%2Fa.txt", "GET, POST"],
    ["HEAD", "/?open=files%3A%2F%2Fdemo%2Fa.txt", "GET, POST"],
    ["POST", "/?open=files%3A%2F%2Fdemo%2Fa.txt", "GET, POST"],
  ])("%s %s is answered with what is allowed, and makes nothing", async (method, path, allow) => {
    const refused = await siteOf({ upload })(path, { method });
    expect([refused.status, refused.headers.get("allow")]).toEqual([405, allow]);
  });

  test("is not begun by another site, nor where the server takes none", async () => {
    const headers = { "sec-fetch-site": "cross-site" };
    expect((await siteOf({ upload })("/", { method: "POST", headers })).status).toBe(403);
    expect((await siteOf()("/", { method: "POST" })).status).toBe(405);
    expect(await (await siteOf()("/")).text()).not.toContain("Send files");
  });
});

describe("the page of a loopback server", () => {
  const endpoint = "http://127.0.0.1:2532/mcp";
  const bearer = { verifier: { verifyAccessToken: () => Promise.reject(new Error("no token")) } };
  const handlerOf = (options: object): SluiceHandler => {
    const storage = createMemoryBackend(files);
    const sluice = createSluice({ storage, endpoint, onWarning: () => {}, ...options });
    return createHandler({ sluice, filesPage: true });
  };

  test("is not behind a check of tokens that leaves it open to everyone", () => {
    const open = handlerOf({});
    const refused = /pass principal to createSluice, or anonymous: true/;
    expect(() => toNodeHandler(open, { bearer })).toThrow(refused);
    expect(() => toNodeHandler(open, { authenticate: () => {} })).toThrow(refused);
    expect(() => toNodeHandler(open)).not.toThrow();
    for (const options of [{ principal: () => undefined }, { anonymous: true }])
      expect(() => toNodeHandler(handlerOf(options), { bearer })).not.toThrow();
  });

  test.each([
    ["localhost:2532", "http://127.0.0.1:2532/?folder=files%3A%2F%2Flocal%2Fsub%2F"],
    ["LOCALHOST:2532", "http://127.0.0.1:2532/?folder=files%3A%2F%2Flocal%2Fsub%2F"],
    ["[::1]:2532", "http://127.0.0.1:2532/?folder=files%3A%2F%2Flocal%2Fsub%2F"],
    // its own name, and a port that is forwarded to it
    ["127.0.0.1:2532", null],
    ["localhost:9000", null],
  ])("leads a browser that asks %s to %s", async (host, location) => {
    const target = `http://${host}/?folder=files%3A%2F%2Flocal%2Fsub%2F`;
    const answer = await handlerOf({}).fetch(new Request(target, { headers: { host } }));
    expect([answer.status, answer.headers.get("location")]).toEqual([
      location ? 302 : 200,
      location,
    ]);
  });
});

test.each([
  ["a Sluice without links", {}, { links: undefined }, /pass links: true to createSluice/],
  ["an endpoint at the root", {}, { endpoint: origin }, /endpoint with a path, such as \/mcp/],
  ["an unknown option", { nam: "x" }, {}, /no option nam; did you mean name\?/],
])("%s is a TypeError that says what to write", (_, page, options, message) => {
  expect(() => siteOf(page as FilesPageOptions, options)).toThrow(message);
});

test.each([
  [
    "a,b\n1,2\n",
    [
      ["a", "b"],
      ["1", "2"],
    ],
  ],
  ['"x, ""y""",z', [['x, "y"', "z"]]],
  [
    "a;b\r\n1;2",
    [
      ["a", "b"],
      ["1", "2"],
    ],
  ],
  [
    'a\tb\n"1\n2"\t3',
    [
      ["a", "b"],
      ["1\n2", "3"],
    ],
  ],
  ["\ufeffa,b", [["a", "b"]]],
  ["", []],
  ["a,,b", [["a", "", "b"]]],
])("CSV %j", (text, rows) => expect(csvRows(text)).toEqual(rows));

test("CSV is read as far as it is shown", () => {
  const line = `${"x,".repeat(100)}\n`;
  const rows = csvRows(line.repeat(2_000));
  expect([rows.length, rows[0]!.length]).toEqual([csvLimits.rows, csvLimits.columns]);
});

test.each([
  [0, [], ""],
  [1, [1_500], "1 folder, 1 file, 1.5 kB"],
  [1_200, Array.from({ length: 2_000 }, () => 0), "1,200 folders, 2,000 files, 0 bytes"],
])("counts %i folders", (folders, sizes, text) => expect(countText(folders, sizes)).toBe(text));
