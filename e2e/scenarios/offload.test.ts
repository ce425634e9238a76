// @module-tag slow
import {
  mkdir,
  open as openFile,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { streamResource } from "@sluice/client";
import { EXTENSION_ID, STREAM_METHOD } from "@sluice/core/internal";
import { createMemoryStores } from "@sluice/state";
import { wrapBackend, type StorageBackend } from "@sluice/storage";
import { request } from "undici";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { mountVolume } from "../../packages/storage-fs/test/volume.ts";
import { connect } from "../bed/clients.ts";
import { bytesOf, sha256 } from "../bed/content.ts";
import { createMeddler } from "../bed/meddler.ts";
import { hasNginx } from "../bed/nginx.ts";
import { startOffloading, type OffloadingSite } from "../bed/offload.ts";
import { call, send, type RawAnswer } from "../bed/raw.ts";
import { createWire, type Wire } from "../bed/wire.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
if (!deep) console.log("offload: files that change while nginx sends them are for SLUICE_DEEP=1");

const content = bytesOf(200_000, "offload");
const uri = "files://site/a.bin";

/** A download URL at nginx, and the same at the server behind it. */
async function urlsOf({ site, direct }: OffloadingSite, name = uri) {
  const { message } = await call(
    site.url,
    STREAM_METHOD,
    { uri: name },
    {
      streaming: { prefer: ["downloadUrl"] },
      headers: { "mcp-name": name },
    },
  );
  const front = String(message?.result?.["downloadUrl"]);
  return { front, behind: front.replace(site.origin, direct) };
}

function streamCall(url: string, headers: Record<string, string> = {}): Promise<RawAnswer> {
  return call(
    url,
    STREAM_METHOD,
    { uri },
    {
      streaming: { prefer: ["direct"] },
      headers: { "mcp-name": uri, accept: "application/json, text/event-stream, */*", ...headers },
    },
  );
}

/** What a client sees of an answer, without what differs between any two servers or calls. */
function seen({ status, headers, bytes }: RawAnswer) {
  const { date: _date, server: _server, connection: _connection, ...rest } = headers;
  delete rest["keep-alive"];
  const link = rest["link"] && "a grant";
  return { status, headers: { ...rest, ...(link && { link }) }, bytes: sha256(bytes) };
}

/** Outcomes of what follows, as they are recorded. */
function outcomesOf({ records }: OffloadingSite) {
  const before = records.length;
  return (count: number) =>
    expect
      .poll(() => records.length - before)
      .toBe(count)
      .then(() => records.slice(before).map(({ outcome }) => outcome));
}

/** A store that knows more of its files than a folder does; what it knows the digest of is read here. */
function describing(files: StorageBackend): StorageBackend {
  return wrapBackend(files, {
    open:
      (open) =>
      async (key, options = {}) => {
        const opened = await open(key, options);
        const { file, range, info } = opened;
        const digests = range && { sha256: sha256(content) };
        return {
          info: {
            ...info,
            contentType: "text/html",
            contentEncoding: "gzip",
            ...(digests && { digests }),
          },
          ...(range && { range }),
          ...(file && { file }),
          get body() {
            return opened.body;
          },
        };
      },
  });
}

describe.skipIf(!hasNginx)("behind nginx, as documented", () => {
  test("nginx sends the bytes, with the status and every header that the server itself would send", async () => {
    const bed = await startOffloading({ files: { "a.bin": content }, storage: describing });
    const { front, behind } = await urlsOf(bed);
    const headersOf = async (headers: Record<string, string>) => {
      const ended = outcomesOf(bed);
      const offloaded = await send("GET", front, { headers });
      expect(await ended(1)).toEqual(["offloaded"]);
      const own = await send("GET", behind, { headers });
      expect(await ended(2)).toEqual(["offloaded", "complete"]);
      expect(seen(offloaded)).toEqual(seen(own));
      return offloaded;
    };
    const whole = await headersOf({});
    expect(whole.bytes.equals(content)).toBe(true);
    expect(whole.headers).toMatchObject({
      "content-type": "application/octet-stream",
      "content-encoding": "gzip",
    });
    const origin = { origin: bed.site.origin };
    expect((await headersOf(origin)).headers["access-control-allow-origin"]).toBe("*");
    const etag = String(whole.headers.etag);
    for (const range of ["bytes=5-9", "bytes=199999-", "bytes=-7", "bytes=0-", "BYTES=9-999999"])
      for (const condition of [{}, { "if-range": etag }])
        expect(await headersOf({ range, ...condition })).toMatchObject({
          status: 206,
          headers: { "repr-digest": expect.stringContaining("sha-256=") },
        });
    expect((await headersOf({ "if-none-match": '"other"' })).status).toBe(200);

    // the same for the answer to a call, whose method nginx changes
    const ended = outcomesOf(bed);
    const offloaded = await streamCall(bed.site.url);
    expect(await ended(1)).toEqual(["offloaded"]);
    expect(offloaded.bytes.equals(content)).toBe(true);
    expect(offloaded.headers.link).toContain('rel="stream"');
    const own = seen(await streamCall(`${bed.direct}/mcp`));
    expect(seen(offloaded)).toEqual(own);

    // the twin: nginx forgets a header that it is not told of
    await bed.restart({ "add_header X-Content": "add_header Other-X-Content" });
    expect(seen(await streamCall(`${bed.nginx().origin}/mcp`))).not.toEqual(own);
  });

  test("nginx sends what links lead to as the server itself would, shown or saved, to pages of every origin", async () => {
    const bed = await startOffloading({
      files: { "a.png": content, "a.html": content },
      sluice: { links: {}, stores: createMemoryStores() },
    });
    const { sluice, origin } = bed.site;
    const caller = { header: () => undefined };
    for (const name of ["a.png", "a.html"])
      for (const disposition of ["inline", "attachment"] as const) {
        const { url } = await sluice.link(`files://site/${name}`, { caller, disposition });
        for (const asked of [{}, { range: "bytes=5-9" }])
          for (const page of [{}, { origin }, { origin: "null" }]) {
            const headers = { ...asked, ...page };
            const ended = outcomesOf(bed);
            const offloaded = await send("GET", url, { headers });
            const own = await send("GET", url.replace(origin, bed.direct), { headers });
            expect(await ended(2)).toEqual(["offloaded", "complete"]);
            expect(seen(offloaded)).toEqual(seen(own));
          }
        await sluice.revoke({ token: url.slice(url.lastIndexOf("/") + 1) });
        expect((await send("GET", url)).status).toBe(404);
      }
    // each answer is that of one request
    const { url } = await sluice.link("files://site/a.png", { caller, use: "once" });
    const statuses = await Promise.all(
      [0, 1, 2, 3].map(async () => (await send("GET", url)).status),
    );
    expect(statuses.toSorted((one, other) => one - other)).toEqual([200, 404, 404, 404]);
  });

  test("the server itself sends every request that nginx would read in another way: the responses are the same", async () => {
    const bed = await startOffloading({ files: { "a.bin": content } });
    const { front, behind } = await urlsOf(bed);
    const { etag = "" } = (await send("GET", behind)).headers;
    const past = "Sat, 21 Nov 2015 21:30:15 GMT";
    const future = "Sat, 21 Nov 2037 21:30:15 GMT";
    const conditions = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
    const values = [etag, `W/${etag}`, '"other"', "*", past, future, "nonsense"];
    const telling = deep ? values : [etag, "*", past];
    const ranges = ["bytes=5-9,20-30", "bytes= 5-9", "bytes=5-9,", "bytes=9-5", "bytes=200000-"];
    const oddRanges = [...ranges, "bytes=0-99999999999999999999", "items=0-5", "bytes=-0", "5-9"];
    const requests: Record<string, string>[] = [
      ...conditions.flatMap((name) => telling.map((value) => ({ [name]: value }))),
      ...values.map((value) => ({ range: "bytes=5-9", "if-range": value })),
      ...oddRanges.map((range) => ({ range })),
    ];
    for (const headers of requests) {
      const answers = [
        await send("GET", front, { headers }),
        await send("GET", behind, { headers }),
      ];
      expect({ asked: headers, ...seen(answers[0]!) }).toEqual({
        asked: headers,
        ...seen(answers[1]!),
      });
    }
    const heads = [await send("HEAD", front), await send("HEAD", behind)];
    expect(seen(heads[0]!)).toEqual(seen(heads[1]!));
    // neither has a meaning for a call
    for (const headers of [{ range: "bytes=5-9" }, { "if-none-match": "*" }]) {
      const posts = [
        await streamCall(bed.site.url, headers),
        await streamCall(`${bed.direct}/mcp`, headers),
      ];
      expect(seen(posts[0]!)).toEqual(seen(posts[1]!));
      expect(posts[0]!.bytes.equals(content)).toBe(true);
    }
  });

  test("negative control: nginx alone fails conditions that hold", async () => {
    const bed = await startOffloading({ files: { "a.bin": content } });
    const { front } = await urlsOf(bed);
    const { etag = "" } = (await send("GET", front)).headers;
    await bed.restart({
      'proxy_set_header Connection "";':
        'proxy_set_header Connection ""; proxy_set_header If-Match "";',
    });
    const headers = { "if-match": etag };
    const { pathname } = new URL(front);
    expect((await send("GET", bed.nginx().origin + pathname, { headers })).status).toBe(412);
  });

  test("files of every name arrive, and no other", async () => {
    const names = [
      "p%2e%2e%2fq",
      "100%",
      "q?x=1&y",
      "h#f",
      "a b",
      " lead",
      "semi;c",
      "pl+us",
      "it's",
      '"q"',
      "ünï",
      "u\u0308",
      "日本",
      Array(4).fill("é".repeat(120)).join("/"),
      "🙂",
      "a..",
      "a..b",
      "x.php",
      "~t",
      "[x]{y}|^",
      "`",
      "a:b",
      "a,b",
      "@named",
      "%00",
      "%0d%0aX-Evil: 1",
      "sub/x.php",
      "sub/%2f",
      "s?b/x",
      "_sluice/x",
      "-d",
      "$uri",
      "${uri}",
    ];
    const files = Object.fromEntries(names.map((name) => [`${name}.bin`, `is ${name}`]));
    const php = {
      "listen 127.0.0.1": "location ~ [.]php([.]bin)?$ { return 418; } listen 127.0.0.1",
    };
    const bed = await startOffloading({ files, parts: php });
    const client = await connect("SDK v2, modern", bed.site.url);
    const { resources } = await client.listResources();
    expect(resources).toHaveLength(names.length);
    const got = new Map<string, string>();
    for (const resource of resources) {
      const { front } = await urlsOf(bed, resource.uri);
      const ended = outcomesOf(bed);
      const { status, bytes } = await send("GET", front);
      expect([resource.uri, status, await ended(1)]).toEqual([resource.uri, 200, ["offloaded"]]);
      got.set(bytes.toString(), resource.uri);
    }
    expect([...got.keys()].toSorted()).toEqual(names.map((name) => `is ${name}`).toSorted());
    await client.close();

    // the twin: without ^~ another location takes a file by its name
    await writeFile(join(bed.site.root, "twin.php"), "is no program");
    const { front } = await urlsOf(bed, "files://site/twin.php");
    await bed.restart({ ...php, "location ^~": "location" });
    expect((await send("GET", bed.nginx().origin + new URL(front).pathname)).status).toBe(418);
  });

  test("links inside arrive, links out do not, also when they come after the decision", async () => {
    let swap: (() => Promise<void>) | undefined;
    const bed = await startOffloading({
      files: { "real/a.bin": content, "way/a.bin": content },
      behind: async (target, root) => {
        await mkdir(`${root}-outside`);
        await writeFile(`${root}-outside/a.bin`, "top secret");
        await symlink("real", join(root, "alias"));
        await symlink(`${root}-outside`, join(root, "out"));
        const meddler = await createMeddler(target);
        meddler.meddle = async ({ answer }) => {
          if (answer.headers["x-accel-redirect"] !== undefined) await swap?.();
          return false;
        };
        return meddler;
      },
    });
    const { root } = bed.site;
    const behindLink = await urlsOf(bed, "files://site/alias/a.bin");
    const ended = outcomesOf(bed);
    expect((await send("GET", behindLink.front)).bytes.equals(content)).toBe(true);
    expect(await ended(1)).toEqual(["offloaded"]);
    const refused = await call(bed.site.url, STREAM_METHOD, { uri: "files://site/out/a.bin" });
    expect(refused.message?.error?.message).toMatch(/not found/i);

    const { front } = await urlsOf(bed, "files://site/way/a.bin");
    const swapOnce = async () => {
      swap = undefined;
      await rename(join(root, "way"), join(root, "gone"));
      await symlink(`${root}-outside`, join(root, "way"));
    };
    swap = swapOnce;
    const late = await send("GET", front);
    expect([late.status, late.bytes.includes("top secret")]).toEqual([404, false]);

    // the twin: an nginx that follows links follows this one
    await bed.restart({ "disable_symlinks on from=/srv/files;": "" });
    await rm(join(root, "way"));
    await rename(join(root, "gone"), join(root, "way"));
    swap = swapOnce;
    const led = await send("GET", bed.nginx().origin + new URL(front).pathname);
    expect(led.bytes.toString()).toBe("top secret");
  });

  test("files of a mounted volume arrive from their real place, before and after an update", async () => {
    const bed = await startOffloading({ files: { "real/a.bin": content } });
    const config = join(bed.site.root, "config");
    await mkdir(config);
    await mountVolume(config, "..2024_01_31_09_30_00.1", { "app.conf": "a=1", "tls/b.crt": "b1" });
    const read = async (name: string): Promise<string> => {
      const { front } = await urlsOf(bed, `files://site/config/${name}`);
      const ended = outcomesOf(bed);
      const { bytes } = await send("GET", front);
      expect(await ended(1)).toEqual(["offloaded"]);
      return bytes.toString();
    };
    expect([await read("app.conf"), await read("tls/b.crt")]).toEqual(["a=1", "b1"]);
    const files = { "app.conf": "a=2", "tls/b.crt": "b2" };
    await mountVolume(config, "..2024_02_01_09_30_00.2", files, "..2024_01_31_09_30_00.1");
    expect([await read("app.conf"), await read("tls/b.crt")]).toEqual(["a=2", "b2"]);
  });

  test("neither path nor prefix nor secret gets out, and the prefix leads nowhere", async () => {
    const asked: string[] = [];
    const bed = await startOffloading({
      files: { "folder/a.bin": content },
      author: (mcp) => {
        mcp.registerTool("look", {}, (ctx) => {
          asked.push(JSON.stringify([...(ctx.http?.req?.headers ?? [])]));
          return { content: [] };
        });
      },
    });
    const { front, behind } = await urlsOf(bed, "files://site/folder/a.bin");
    const said = "x-sluice-offload";
    for (const value of [
      undefined,
      "",
      "x-accel-redirect",
      "/_sluice/",
      "change-me",
      bed.site.root,
    ])
      for (const url of [front, behind]) {
        const headers: Record<string, string> = value === undefined ? {} : { [said]: value };
        const { status, headers: got, bytes } = await send("GET", url, { headers });
        expect([status, bytes.equals(content)]).toEqual([200, true]);
        expect(JSON.stringify(got)).not.toMatch(/_sluice|accel|\/root/i);
      }
    for (const path of [
      "/_sluice/folder/a.bin",
      "/_sluice/",
      "/_sluice/../mcp",
      "/mcp/..%2f_sluice/folder/a.bin",
    ])
      expect((await send("GET", bed.site.origin + path)).bytes.equals(content)).toBe(false);
    await call(bed.site.url, "tools/call", { name: "look" }, { headers: { "mcp-name": "look" } });
    expect(asked).toHaveLength(1);
    expect(asked[0]).not.toContain("change-me");
  });

  test("an nginx that dies in the middle is seen, and our client goes on when there is one again", async () => {
    const large = bytesOf(8_000_000, "large");
    let wire: Wire | undefined;
    const slow = { "open_file_cache off;": "open_file_cache off; limit_rate 500k;" };
    const bed = await startOffloading({
      files: { "a.bin": large },
      parts: slow,
      wire: async (target) => (wire = await createWire(target)),
    });
    const { front } = await urlsOf(bed);
    const response = await fetch(front);
    const reader = response.body!.getReader();
    await reader.read();
    await bed.restart(slow);
    await expect(
      (async () => {
        while (!(await reader.read()).done);
      })(),
    ).rejects.toThrow("terminated");

    const client = await connect("SDK v2, modern", bed.site.url);
    const before = wire!.sent;
    const stream = await streamResource(client, uri, { timeouts: { pauseScale: 0 } });
    const saved = stream.saveTo(join(bed.site.target, "a.bin"));
    await expect.poll(() => wire!.sent - before).toBeGreaterThan(200_000);
    await bed.restart();
    const { path } = await saved;
    expect((await readFile(path)).equals(large)).toBe(true);
    // it went on, and did not begin again
    expect(wire!.sent - before).toBeLessThan(large.length * 1.3);
    const bytesSent = bed.records.filter(
      ({ outcome }) => outcome !== "offloaded" && outcome !== "issued",
    );
    expect(bytesSent).toEqual([]);
    await client.close();
  });

  test("the record says handed over, not arrived: it counts, ends no lease and holds no place", async () => {
    const large = bytesOf(4_000_000, "slow");
    const counted: number[] = [];
    const bed = await startOffloading({
      files: { "a.bin": large },
      parts: { "open_file_cache off;": "open_file_cache off; limit_rate 100k;" },
      sluice: {
        grant: { use: "lease" },
        limits: { streams: { perProcess: 1 } },
        rates: {
          bytes: { global: { consume: async (_key, points) => void counted.push(points) } },
        },
      },
    });
    const { front } = await urlsOf(bed);
    const ended = outcomesOf(bed);
    const underWay = await fetch(front);
    expect(await ended(1)).toEqual(["offloaded"]);
    expect(bed.records.at(-1)).toMatchObject({ action: "download", bytes: large.length });
    // nothing of it is settled: the lease still leads there, and the place is free
    const again = await fetch(front);
    expect([again.status, await ended(2)]).toEqual([200, ["offloaded", "offloaded"]]);
    // one point asks whether anything is left
    expect(counted.filter((points) => points > 1)).toEqual([large.length, large.length]);
    await underWay.body?.cancel();
    await again.body?.cancel();
  });

  test("the official client gets the bytes, as JSON and from a download URL", async () => {
    const bed = await startOffloading({ files: { "a.bin": content } });
    const client = new Client(
      { name: "app", version: "1.0.0" },
      {
        capabilities: { extensions: { [EXTENSION_ID]: { prefer: ["downloadUrl"] } } },
        versionNegotiation: { mode: "auto" },
      },
    );
    await client.connect(new StreamableHTTPClientTransport(new URL(bed.site.url)));
    const [read] = (await client.readResource({ uri })).contents;
    expect(Buffer.from((read as { blob: string }).blob, "base64").equals(content)).toBe(true);
    const params = { method: STREAM_METHOD, params: { uri } };
    const { downloadUrl } = await client.request(
      params,
      z.looseObject({ downloadUrl: z.string() }),
    );
    const bytes = Buffer.from(await (await fetch(downloadUrl)).arrayBuffer());
    expect(bytes.equals(content)).toBe(true);
    expect(bed.records.at(-1)).toMatchObject({ action: "download", outcome: "offloaded" });
    await client.close();
  });

  test.runIf(deep)(
    "changes of a file while nginx sends it have the documented effect",
    async () => {
      // more than all buffers on the way hold
      const old = bytesOf(24_000_000, "old");
      const tail = bytesOf(1_000_000, "tail");
      const bed = await startOffloading({
        files: {
          "replaced.bin": old,
          "truncated.bin": old,
          "overwritten.bin": old,
          "other.bin": tail,
        },
      });
      const path = (name: string): string => join(bed.site.root, name);
      const begin = async (name: string) => {
        const { front } = await urlsOf(bed, `files://site/${name}`);
        const { body } = await request(front);
        return { rest: () => body.arrayBuffer().then((got) => Buffer.from(got)) };
      };
      const replaced = await begin("replaced.bin");
      await rename(path("other.bin"), path("replaced.bin"));
      expect((await replaced.rest()).equals(old)).toBe(true);

      const truncated = await begin("truncated.bin");
      await truncate(path("truncated.bin"), 0);
      await expect(truncated.rest()).rejects.toThrow(/terminated|other side closed/);

      const overwritten = await begin("overwritten.bin");
      const file = await openFile(path("overwritten.bin"), "r+");
      await file.write(tail, 0, tail.length, old.length - tail.length);
      await file.close();
      const mixed = Buffer.concat([old.subarray(0, -tail.length), tail]);
      expect((await overwritten.rest()).equals(mixed)).toBe(true);
    },
  );

  test("a file that takes the name after the decision arrives whole, as it is told by its length", async () => {
    const other = bytesOf(150_000, "other");
    let swap: (() => Promise<void>) | undefined;
    const bed = await startOffloading({
      files: { "a.bin": content, "b.bin": other },
      behind: async (target) => {
        const meddler = await createMeddler(target);
        meddler.meddle = async ({ answer }) => {
          if (answer.headers["x-accel-redirect"] !== undefined) await swap?.();
          return false;
        };
        return meddler;
      },
      sluice: { delivery: "downloadUrl" },
    });
    const client = await connect("SDK v2, modern", bed.site.url);
    let swaps = 0;
    swap = async () => {
      swap = undefined;
      swaps += 1;
      await rename(join(bed.site.root, "b.bin"), join(bed.site.root, "a.bin"));
    };
    // its length is not the promised one: the client asks again, and gets the new version
    const streamed = await streamResource(client, uri, { timeouts: { pauseScale: 0 } });
    expect([swaps, streamed.size]).toEqual([1, other.length]);
    const { path } = await streamed.saveTo(join(bed.site.target, "a.bin"));
    expect((await readFile(path)).equals(other)).toBe(true);
    await client.close();
  });
});
