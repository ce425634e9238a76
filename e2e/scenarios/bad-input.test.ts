import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { streamResource } from "@sluice/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, sdkNames } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { call, send } from "../bed/raw.ts";
import { startSite, type Site } from "../bed/site.ts";

const content = bytesOf(300_000, "report");
const uri = "files://site/report.pdf";
const timeouts = { pauseScale: 0 };

let site: Site;

beforeAll(async () => {
  site = await startSite({ files: { "report.pdf": content, "folder/inside.txt": "in" } });
  await writeFile(join(site.root, "..", "secret.txt"), "secret");
  await mkdir(join(site.root, "..", "root-secret"));
  await writeFile(join(site.root, "..", "root-secret", "a.txt"), "secret");
  await symlink(join(site.root, "..", "secret.txt"), join(site.root, "link.txt"));
});
afterAll(() => site[Symbol.asyncDispose]());

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
  await expect(streamResource(client, uri, { maxStreamBytes: 1_000 })).rejects.toMatchObject({
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
