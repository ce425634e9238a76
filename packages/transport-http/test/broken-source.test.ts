import { createServer, get, type RequestListener } from "node:http";
import { toNodeHandler as toNaiveNodeHandler } from "@modelcontextprotocol/node";
import { createMemoryBackend, protect, wrapBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { post, streaming } from "./call.ts";
import { listen, serve } from "./serve.ts";

const uri = "files://demo/a.bin";

/** Storage whose bodies go wrong after two chunks. `isSized` tells whether the size is promised. */
function failing(
  isSized: boolean,
  next: (controller: ReadableStreamDefaultController) => void,
): StorageBackend {
  return wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
    describe: (look) => async (key) => {
      const { size, etag: _etag, digests: _digests, ...info } = await look(key);
      return isSized ? { ...info, size: size! } : info;
    },
    open: (open) => async (key) => {
      const { size, etag: _etag, digests: _digests, ...info } = (await open(key)).info;
      let chunks = 0;
      const body = new ReadableStream<Uint8Array>({
        pull(controller) {
          if (chunks++ < 2) controller.enqueue(new TextEncoder().encode("0123"));
          else next(controller);
        },
      });
      return { info: isSized ? { ...info, size: size! } : info, body };
    },
  });
}

/** What a plain Node client makes of an answer: whether it looks whole. */
function fetchPlainly(url: string): Promise<"whole" | "broken"> {
  return new Promise((resolve) => {
    get(url, (res) => {
      res.on("data", () => {});
      res.on("close", () => resolve(res.complete ? "whole" : "broken"));
      res.on("error", () => {});
    }).on("error", () => resolve("broken"));
  });
}

async function downloadUrl(url: string): Promise<string> {
  const json = await post(url, "modern", uri, {
    capabilities: streaming({ prefer: ["downloadUrl"] }),
  });
  return ((await json.json()) as { result: { downloadUrl: string } }).result.downloadUrl;
}

const faults: Record<string, StorageBackend> = {
  "breaks, size promised": failing(true, (body) => body.error(new Error("disk gone"))),
  "breaks, size unknown": failing(false, (body) => body.error(new Error("disk gone"))),
  "ends early": failing(true, (body) => body.close()),
};

describe.each(Object.entries(faults))("a source that %s", (_name, storage) => {
  test("destroys the connection on the download route and on the MCP endpoint", async () => {
    const { url, records } = await serve({ sluice: { storage } });
    expect(await fetchPlainly(await downloadUrl(url))).toBe("broken");
    const direct = post(url, "modern", uri).then((response) => response.arrayBuffer());
    await expect(direct).rejects.toThrow(TypeError);
    await expect
      .poll(() => records.map(({ outcome }) => outcome))
      .toEqual(["issued", "failed", "failed"]);
  });
});

test("negative control: the SDK's own adapter lets a broken source of unknown size end like a whole one", async () => {
  const { handler, url } = await serve({ sluice: { storage: faults["breaks, size unknown"]! } });
  const naive = toNaiveNodeHandler(handler) as unknown as RequestListener;
  const origin = await listen(createServer(naive));
  const { pathname } = new URL(await downloadUrl(url));
  expect(await fetchPlainly(origin + pathname)).toBe("whole");
});

test("a source that fails before its first byte is an error answer, not a broken connection", async () => {
  const storage = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
    open: (open) => async (key) => {
      const { info } = await open(key);
      return {
        info,
        body: new ReadableStream({ pull: () => Promise.reject(new Error("disk gone")) }),
      };
    },
  });
  const { url, errors } = await serve({ sluice: { storage } });
  const response = await fetch(await downloadUrl(url));
  expect([response.status, response.headers.get("content-type")]).toEqual([
    500,
    "application/problem+json",
  ]);
  expect(errors).toHaveLength(1);
});

test("a source that never begins is told from a reader that takes nothing: an error answer, and a fault", async () => {
  const silent = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
    open: (open) => async (key, options) => {
      const { info } = await open(key, options);
      return { info, body: new ReadableStream<Uint8Array>() };
    },
  });
  const storage = protect(silent, { idleMs: 150, maxAttempts: 1 });
  const { url, records } = await serve({ sluice: { storage }, node: { idleMs: 100 } });
  expect((await fetch(await downloadUrl(url))).status).toBeGreaterThanOrEqual(502);
  expect(records.at(-1)).toMatchObject({ outcome: "failed" });
});

test("a reader that leaves cancels the source, and is one aborted record", async () => {
  let cancelled = 0;
  const storage = wrapBackend(
    createMemoryBackend({
      "a.bin": { size: 1e9, read: (start, end) => new Uint8Array(end - start) },
    }),
    {
      open: (open) => async (key, options) => {
        const { info, body } = await open(key, options);
        const reader = body.getReader();
        return {
          info,
          body: new ReadableStream({
            pull: async (controller) => controller.enqueue((await reader.read()).value!),
            cancel: () => void (cancelled += 1),
          }),
        };
      },
    },
  );
  const { url, records } = await serve({ sluice: { storage } });
  const leave = new AbortController();
  const response = await fetch(await downloadUrl(url), { signal: leave.signal });
  await response.body!.getReader().read();
  leave.abort();
  await expect.poll(() => cancelled).toBe(1);
  await expect.poll(() => records.at(-1)).toMatchObject({ action: "download", outcome: "aborted" });
});

test.each(["resources/read", "resources/stream"])(
  "a reader that leaves %s while storage is asked is one aborted record, and no fault of ours",
  async (method) => {
    let asked = false;
    const storage = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
      open:
        () =>
        (_key, { signal } = {}) => {
          asked = true;
          return new Promise((_resolve, reject) =>
            signal!.addEventListener("abort", () => reject(signal!.reason as Error)),
          );
        },
    });
    const { url, records, errors } = await serve({ sluice: { storage } });
    const leave = new AbortController();
    const left = post(url, "modern", uri, { method }, (input, init) =>
      fetch(input, { ...init, signal: leave.signal }),
    ).catch(() => "left");
    await expect.poll(() => asked).toBe(true);
    leave.abort();
    expect(await left).toBe("left");
    await expect.poll(() => records).toHaveLength(1);
    expect(records[0]).toMatchObject({ outcome: "aborted" });
    expect(records[0]).not.toHaveProperty("reason");
    expect(errors).toEqual([]);
  },
);
