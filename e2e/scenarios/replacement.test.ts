import { readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { streamResource } from "@sluice/client";
import { SluiceError } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/internal";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { connect } from "../bed/clients.ts";
import { bytesOf, sha256 } from "../bed/content.ts";
import { createMeddler, type Exchange, type Meddler } from "../bed/meddler.ts";
import { startSite } from "../bed/site.ts";
import { createWire, type Wire } from "../bed/wire.ts";

const content = bytesOf(8_000_000, "old");
const other = bytesOf(8_000_000, "new");
const uri = "files://site/disk.img";
const accounts = { "alice-token": { subject: "alice" } };
const timeouts = { pauseScale: 0 };
const hosted: DeliveryMode[] = ["direct", "downloadUrl"];

describe("an object that is replaced in the middle", () => {
  test.each(hosted)("is delivered whole in its new version or not at all, %s", async (mode) => {
    let wire: Wire | undefined;
    await using site = await startSite({
      files: { "disk.img": content },
      accounts,
      front: async (target) => (wire = await createWire(target)),
      sluice: { delivery: mode },
    });
    const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
    const replacement = join(site.root, ".replacement");
    await writeFile(replacement, other);
    let replaced: Promise<void> | undefined;
    const stream = await streamResource(client, uri, {
      timeouts: { pauseScale: 0.05 },
      onProgress({ bytes }) {
        if (replaced || bytes < 2_000_000) return;
        wire!.cut();
        replaced = rename(replacement, join(site.root, "disk.img")).then(() => wire!.mend());
      },
    });
    const { path } = await stream.saveTo(join(site.target, "disk.img"));
    await replaced;
    expect((await readFile(path)).equals(other)).toBe(true);
    await client.close();
  });

  test("is never delivered half and half, when it is rewritten in place under the server", async () => {
    await using site = await startSite({
      files: { "disk.img": content },
      sluice: { delivery: "direct" },
    });
    const client = await connect("SDK v2, modern", site.url);
    let rewritten: Promise<void> | undefined;
    const stream = await streamResource(client, uri, {
      timeouts,
      onProgress({ bytes }) {
        if (bytes > 1_000_000) rewritten ??= writeFile(join(site.root, "disk.img"), other);
      },
    });
    const outcome = await stream.saveTo(join(site.target, "disk.img")).catch((e: unknown) => e);
    await rewritten;
    for (const name of await readdir(site.target)) {
      const saved = await readFile(join(site.target, name));
      expect(saved.equals(content) || saved.equals(other)).toBe(true);
    }
    expect(outcome).toSatisfy((end) => !(end instanceof Error) || SluiceError.is(end));
    await client.close();
  });
});

/** Answers range requests out of another version, whatever validator came along. */
function splice(etag: (own: string) => string | undefined) {
  return async ({ request, answer, response }: Exchange): Promise<boolean> => {
    const start = /^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1];
    if (start === undefined) return false;
    answer.resume();
    const tag = etag(String(answer.headers.etag));
    response.writeHead(206, {
      "content-type": "application/octet-stream",
      "content-length": other.length - Number(start),
      "content-range": `bytes ${start}-${other.length - 1}/${other.length}`,
      "mcp-resource-uri": uri,
      ...(tag !== undefined && { etag: tag }),
    });
    response.end(other.subarray(Number(start)));
    return true;
  };
}

/** Breaks the first answer with bytes after `bytes` of them. */
function breakOnce(bytes: number, then: (exchange: Exchange) => boolean | Promise<boolean>) {
  let broken = false;
  return async (exchange: Exchange): Promise<boolean> => {
    const { answer, response } = exchange;
    if (broken || answer.headers["mcp-resource-uri"] === undefined) return then(exchange);
    broken = true;
    response.writeHead(answer.statusCode!, answer.headers);
    let sent = 0;
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      response.write(chunk.subarray(0, bytes - sent));
      sent += chunk.length;
      if (sent >= bytes) break;
    }
    setTimeout(() => response.destroy(), 50);
    return true;
  };
}

async function downloadSpliced(etag: (own: string) => string | undefined, digest?: string) {
  let meddler: Meddler | undefined;
  const storage = createMemoryBackend();
  if (digest !== undefined) storage.put("disk.img", content, { digests: { sha256: digest } });
  await using site = await startSite({
    files: { "disk.img": content },
    accounts,
    front: async (target) => (meddler = await createMeddler(target)),
    sluice: { delivery: "downloadUrl", ...(digest !== undefined && { storage }) },
  });
  meddler!.meddle = breakOnce(3_000_000, splice(etag));
  const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
  const stream = await streamResource(client, uri, { timeouts });
  const outcome = await stream.saveTo(join(site.target, "disk.img")).catch((e: unknown) => e);
  await client.close();
  const saved = [];
  for (const name of await readdir(site.target))
    saved.push(await readFile(join(site.target, name)));
  return { outcome, saved };
}

describe("a proxy that splices versions is found out", () => {
  test.each<[string, (own: string) => string | undefined]>([
    ["by the other validator", () => '"another"'],
    ["by the missing validator", () => undefined],
  ])("%s", async (_name, etag) => {
    const { outcome, saved } = await downloadSpliced(etag);
    for (const bytes of saved) expect(bytes.equals(content)).toBe(true);
    expect(outcome).toSatisfy((end) => saved.length === 1 || SluiceError.is(end));
  });
});

const sameTag = (etag: string): string => etag;

describe("a proxy that splices versions and lies about the validator", () => {
  test("is found out by the digest, where there is one", async () => {
    const { outcome, saved } = await downloadSpliced(sameTag, sha256(content));
    expect(outcome).toMatchObject({ name: "SluiceError", code: "corrupt" });
    expect(saved).toEqual([]);
  });

  test("negative control: without a digest no check could tell, so the proxy does splice", async () => {
    const { saved } = await downloadSpliced(sameTag);
    expect(saved).toHaveLength(1);
    expect(saved[0]!.equals(content) || saved[0]!.equals(other)).toBe(false);
    expect(saved[0]!.subarray(-1_000).equals(other.subarray(-1_000))).toBe(true);
  });
});
