import { SluiceError } from "@sluice/core";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { archiveProvider, type ArchiveHost, type ArchiveWalk } from "../src/index.ts";
import { bytesOf } from "./file-set.ts";

/** A server without its rules: pages of a storage below `files://demo/`. */
function hostOf(storage: StorageBackend, log: string[] = []): ArchiveHost {
  return {
    async *walk({ uri, principal, signal }: ArchiveWalk) {
      const prefix = decodeURIComponent(uri.slice("files://demo/".length));
      log.push(`walk ${uri} for ${principal?.subject}`);
      try {
        let cursor: string | undefined;
        do {
          const page = await storage.list({
            prefix,
            limit: 1,
            signal,
            ...(cursor ? { cursor } : {}),
          });
          for (const { key } of page.objects)
            yield {
              path: key.slice(prefix.length),
              open: (options: { signal?: AbortSignal }) => storage.open(key, options),
            };
          ({ cursor } = page);
        } while (cursor !== undefined);
      } finally {
        log.push("over");
      }
    },
  };
}

const storage = createMemoryBackend({
  "a.txt": "a",
  "reports/2026/ü b.txt": "inside",
  "reports/2026/q1/c.txt": "deeper",
  "reports/2026-old/d.txt": "beside",
});
const principal = { issuer: "https://idp.example", subject: "ada", clientId: "app" };
const signal = new AbortController().signal;

async function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return Buffer.from(await bytesOf(stream)).toString("utf8");
}

test("a folder is an archive of its files, with paths below it", async () => {
  const log: string[] = [];
  const provider = archiveProvider(hostOf(storage, log), { of: "files://demo/", format: "tar" });
  const text = await textOf(
    await provider.open({ variables: { folder: "reports/2026" }, principal, signal }),
  );
  expect(text).toMatch(/q1\/c\.txt[^]*deeper[^]*ü b\.txt[^]*inside/);
  expect(text).not.toMatch(/reports|beside/);
  expect(log).toEqual(["walk files://demo/reports/2026/ for ada", "over"]);
});

test("a provider is made as the guide shows", async () => {
  const host = hostOf(storage);
  // #region provider
  const folders = archiveProvider(host, { of: "files://demo/", format: "zip" });
  const everything = archiveProvider(host, {
    of: "files://demo/",
    format: "tar",
    maxFiles: 10_000,
  });
  // #endregion
  const request = { variables: { folder: "reports/2026" }, principal, signal };
  expect(await textOf(await folders.open(request))).toContain("ü b.txt");
  expect(await textOf(await everything.open({ ...request, variables: {} }))).toContain("beside");
});

test("an invalid base or an unknown format is refused when the provider is made", () => {
  const host = hostOf(storage);
  expect(() => archiveProvider(host, { of: "files://demo", format: "zip" })).toThrow(TypeError);
  expect(() => archiveProvider(host, { of: "files://demo/", format: "rar" as "zip" })).toThrow(
    TypeError,
  );
});

test("a variable of another name is an error, and not an archive of all files", async () => {
  const provider = archiveProvider(hostOf(storage), { of: "files://demo/", format: "zip" });
  const asked = { variables: { dir: "reports/2026" }, principal, signal };
  await expect(provider.open(asked)).rejects.toThrow("call the variable of the template folder");
});

test("without a folder the archive has all files", async () => {
  const provider = archiveProvider(hostOf(storage), { of: "files://demo/", format: "zip" });
  const text = await textOf(await provider.open({ variables: {}, principal: undefined, signal }));
  expect(text).toMatch(/^PK[^]*a\.txt[^]*reports\/2026\/q1\/c\.txt/);
  expect(provider.mimeType).toBe("application/zip");
});

test("a folder is one URI, whatever its name", async () => {
  const odd = createMemoryBackend({ "100 %/?#/x": "odd" });
  const log: string[] = [];
  const provider = archiveProvider(hostOf(odd, log), { of: "files://demo/", format: "zip" });
  await textOf(await provider.open({ variables: { folder: "100 %/?#" }, principal, signal }));
  expect(log[0]).toBe("walk files://demo/100%20%25/%3F%23/ for ada");
});

test("a folder without files, or with an invalid key, is refused before the first byte", async () => {
  const provider = archiveProvider(hostOf(storage), { of: "files://demo/", format: "zip" });
  const codeOf = (folder: string): Promise<unknown> =>
    provider
      .open({ variables: { folder }, principal, signal })
      .catch((error: unknown) => (SluiceError.is(error) ? error.code : error));
  expect(await codeOf("nothing/here")).toBe("not_found");
  expect(await codeOf("reports/2026/q1/c.txt")).toBe("not_found");
  expect(await codeOf("reports/../reports")).toBe("invalid_argument");
});

test("a listing that fails at once is refused before the first byte", async () => {
  const down: ArchiveHost = {
    // oxlint-disable-next-line require-yield -- it fails before it has any
    async *walk() {
      throw new SluiceError("unavailable", "down");
    },
  };
  const provider = archiveProvider(down, { of: "files://demo/", format: "zip" });
  await expect(provider.open({ variables: {}, principal, signal })).rejects.toMatchObject({
    code: "unavailable",
  });
});

test("an abort ends the wait for the first page, and the listing", async () => {
  let isOver = false;
  const listing = {
    next: () => new Promise<never>(() => {}),
    async return() {
      isOver = true;
      return { done: true as const, value: undefined };
    },
  };
  const slow: ArchiveHost = { walk: () => ({ [Symbol.asyncIterator]: () => listing }) };
  const provider = archiveProvider(slow, { of: "files://demo/", format: "zip" });
  const ending = new AbortController();
  const opening = provider.open({ variables: {}, principal, signal: ending.signal });
  ending.abort(new Error("gone"));
  await expect(opening).rejects.toThrow("gone");
  expect(isOver).toBe(true);
});

test("an archive that is cancelled before it is read ends its listing", async () => {
  const log: string[] = [];
  const provider = archiveProvider(hostOf(storage, log), { of: "files://demo/", format: "zip" });
  const stream = await provider.open({ variables: {}, principal, signal });
  expect(log).toHaveLength(1);
  await stream.cancel();
  await expect.poll(() => log.at(-1)).toBe("over");
});
