import { mkdir, readdir, readFile, statfs, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type StreamOptions, streamResource } from "@sluice/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, sdkNames } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { createMeddler, type Meddler } from "../bed/meddler.ts";
import { call, send } from "../bed/raw.ts";
import { startSite, type Site } from "../bed/site.ts";

const content = bytesOf(300_000, "report");
const uri = "files://site/report.pdf";
const timeouts = { pauseScale: 0 };

let site: Site;
let meddler: Meddler;

beforeAll(async () => {
  const { free } = await statfs(".").then(({ bavail, bsize }) => ({ free: bavail * bsize }));
  site = await startSite({
    files: { "report.pdf": content, "folder/inside.txt": "in" },
    sparse: { "huge.img": Math.min(free + 2 ** 30, 2 ** 42) },
    front: async (target) => (meddler = await createMeddler(target)),
  });
  await writeFile(join(site.root, "..", "secret.txt"), "secret");
  await mkdir(join(site.root, "..", "root-secret"));
  await writeFile(join(site.root, "..", "root-secret", "a.txt"), "secret");
  await symlink(join(site.root, "..", "secret.txt"), join(site.root, "link.txt"));
});
afterAll(() => site[Symbol.asyncDispose]());

async function save(of: string, path: string, options: StreamOptions = {}) {
  const client = await connect("SDK v2, modern", site.url);
  try {
    const stream = await streamResource(client, of, { timeouts, ...options });
    return await stream.saveTo(path);
  } finally {
    await client.close();
  }
}

test.each(sdkNames)("an unknown resource is not_found, %s", async (sdk) => {
  const client = await connect(sdk, site.url);
  await expect(streamResource(client, "files://site/none.pdf")).rejects.toMatchObject({
    name: "SluiceError",
    code: "not_found",
  });
  await client.close();
});

test.each(sdkNames)("a resource above maxStreamSize is too_large, %s", async (sdk) => {
  const client = await connect(sdk, site.url);
  await expect(streamResource(client, uri, { maxStreamSize: 1_000 })).rejects.toMatchObject({
    name: "SluiceError",
    code: "too_large",
  });
  await client.close();
});

test("no URI leads out of the folder", { tags: "slow" }, async () => {
  const ups = ["..", "%2e%2e", "%2E.", "..%2f..", "%252e%252e", "..;", ".%00.", "..%5c", "..\\"];
  const tails = ["secret.txt", "root-secret/a.txt", "../secret.txt"];
  const hostile = [
    ...ups.flatMap((up) => tails.map((tail) => `files://site/${up}/${tail}`)),
    ...ups.map((up) => `files://site/folder/${up}/${up}/secret.txt`),
    "files://site//secret.txt",
    "files://site/link.txt",
    "files://site/%2Fetc%2Fpasswd",
    "files://site/C:%5Csecret.txt",
    "files://site/report.pdf%00.txt",
    "files://site/%c0%ae%c0%ae/secret.txt",
    "files://other/report.pdf",
    "files://site-secret/a.txt",
    "FILES://site/../secret.txt",
    "file:///etc/passwd",
    "http://site/report.pdf",
    "report.pdf",
    "",
    "\u0000",
    `files://site/${"a/".repeat(5_000)}`,
  ];
  for (const of of hostile) {
    const { status, headers, message, bytes } = await call(
      site.url,
      "resources/stream",
      { uri: of },
      { streaming: {} },
    );
    expect(headers, of).not.toHaveProperty("mcp-resource-uri");
    expect(status, of).toBeLessThan(500);
    expect(message?.error, of).toBeDefined();
    expect(["not_found", "invalid"], of).toContain(message?.error?.data?.reason);
    expect(bytes.toString(), of).not.toContain("secret plans");
  }
});

test("a folder cannot be streamed, and a URI must be text", async () => {
  for (const of of ["files://site/folder", "files://site/folder/", "files://site/"]) {
    const { message } = await call(site.url, "resources/stream", { uri: of }, { streaming: {} });
    expect(message?.error?.data?.reason, of).toMatch(/not_found|stream_unsupported|invalid/);
  }
  for (const of of [undefined, null, 7, {}, ["files://site/report.pdf"]]) {
    const { status, message } = await call(
      site.url,
      "resources/stream",
      { uri: of },
      { streaming: {} },
    );
    expect(status).toBeLessThan(500);
    expect(message?.error?.code).toBe(-32602);
  }
});

test("a Range that makes no sense gives the whole, one beyond the end 416", async () => {
  const { message } = await call(
    site.url,
    "resources/stream",
    { uri },
    { streaming: { prefer: ["downloadUrl"] } },
  );
  const url = String(message?.result?.["downloadUrl"]);
  for (const range of ["bytes=5-2", "lines=1-2", "bytes=a-b", "bytes", "bytes=", "bytes=0-1,4-5"]) {
    const { status, bytes } = await send("HEAD", url, { headers: { range } });
    expect(status, range).toBe(200);
    expect(bytes).toHaveLength(0);
  }
  for (const range of ["bytes=300000-", "bytes=999999999999999999-", "bytes=-0"]) {
    const { status, headers } = await send("GET", url, { headers: { range } });
    expect(status, range).toBe(416);
    expect(headers["content-range"]).toBe("bytes */300000");
  }
});

test("a POST that is not JSON gets no stream", async () => {
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "resources/stream",
    params: { uri },
  });
  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "",
  ]) {
    const { status, headers } = await send("POST", site.url, {
      headers: { accept: "application/json, text/event-stream", "content-type": type },
      body,
    });
    expect(status, type).toBe(415);
    expect(headers).not.toHaveProperty("mcp-resource-uri");
  }
});

describe("saving", () => {
  test("never replaces what is there, nor writes through a link", async () => {
    const outside = join(site.target, "outside.txt");
    await writeFile(outside, "mine");
    await writeFile(join(site.target, "taken.pdf"), "mine");
    await symlink(outside, join(site.target, "link.pdf"));
    for (const name of ["taken.pdf", "link.pdf"]) {
      await expect(save(uri, join(site.target, name))).rejects.toMatchObject({
        code: "already_exists",
      });
      expect(await readFile(join(site.target, name), "utf8")).toBe("mine");
      expect(await readFile(outside, "utf8")).toBe("mine");
    }
  });

  test("into a folder that is not there, or is no folder, says so and leaves nothing", async () => {
    await writeFile(join(site.target, "file"), "mine");
    for (const path of [
      join(site.target, "no", "where", "a.pdf"),
      join(site.target, "file", "a.pdf"),
    ])
      await expect(save(uri, path)).rejects.toMatchObject({
        name: "SluiceError",
        code: expect.stringMatching(/not_found|invalid_argument|unsupported/),
      });
  });

  test("refuses what the disk has no room for, before it downloads it", async () => {
    const before = meddler.requests.length;
    await expect(
      save("files://site/huge.img", join(site.target, "huge.img"), { maxStreamSize: 2 ** 50 }),
    ).rejects.toMatchObject({ name: "SluiceError", code: "no_space" });
    expect(meddler.requests.length - before).toBeLessThan(6);
    expect(await readdir(site.target)).not.toContain("huge.img");
  });

  test("takes a hostile name for a name", async () => {
    meddler.meddle = ({ answer, response }) => {
      if (answer.headers["mcp-resource-uri"] === undefined) return false;
      answer.resume();
      response
        .writeHead(200, {
          "content-length": content.length,
          "mcp-resource-uri": uri,
          etag: String(answer.headers.etag),
          "content-disposition": "attachment; filename*=UTF-8''..%2F..%2F..%2Fetc%2Fcron.d%2Fevil",
        })
        .end(content);
      return true;
    };
    const { path } = await save(uri, `${site.target}/`, { prefer: ["direct"] });
    meddler.meddle = () => false;
    expect(path).toBe(join(site.target, "evil"));
  });
});

test("an aborted transfer rejects with the reason and leaves no file", async () => {
  const reason = new Error("enough");
  const abort = new AbortController();
  await expect(
    save(uri, join(site.target, "aborted.pdf"), {
      signal: abort.signal,
      onProgress: () => abort.abort(reason),
    }),
  ).rejects.toBe(reason);
  const left = await readdir(site.target);
  expect(left.filter((name) => name.includes("aborted"))).toEqual([]);
});

test("a server that is gone is unavailable, in bounded time", async () => {
  const gone = await startSite({
    files: { "report.pdf": content },
    sluice: { delivery: "downloadUrl" },
  });
  const client = await connect("SDK v2, modern", gone.url);
  const stream = await streamResource(client, uri, { timeouts });
  await gone[Symbol.asyncDispose]();
  await expect(
    stream
      .saveTo(join(site.target, "gone.pdf"))
      .then(() => streamResource(client, uri, { timeouts })),
  ).rejects.toMatchObject({
    name: "SluiceError",
    code: expect.stringMatching(/unavailable|interrupted/),
  });
  await client.close();
});
