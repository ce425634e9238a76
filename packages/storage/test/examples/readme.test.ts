// @module-tag slow
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { SluiceError } from "@sluice/core";
import { createMemoryBackend, createUriMapper, protect } from "@sluice/storage";
import {
  type BackendCall,
  createBody,
  defineBackend,
  holdLastChunk,
  type ObjectInfo,
} from "@sluice/storage/plugin";
import { expect, inject, test } from "vitest";
import { createLogged } from "./logged.ts";

/** Runs one of the examples as its own program, as a reader would. */
function run(example: string, ...flags: readonly string[]): Promise<{ stdout: string }> {
  const program = inject("programs")[`packages/storage/test/examples/${example}`]!;
  return promisify(execFile)(process.execPath, [...flags, program], { timeout: 15_000 });
}

test("a memory backend holds small content", async () => {
  // #region memory
  const backend = createMemoryBackend({ "notes/today.md": "# Today\n" });
  backend.put("notes/raw.bin", new Uint8Array([1, 2, 3]), { contentType: "application/x-raw" });

  const { info, body } = await backend.open("notes/today.md");
  console.log(info.size, await new Response(body).text()); // 8 "# Today\n"
  // #endregion
  expect(info.size).toBe(8);
});

test("a protected backend is what a server reads from", async () => {
  const backend = createMemoryBackend({ "big.iso": "0123456789" });
  const signal = new AbortController().signal;
  // #region protect
  const storage = protect(backend, { idleMs: 15_000, maxAttempts: 3 });
  const { info, range, body } = await storage.open("big.iso", { range: { start: 4 }, signal });
  console.log(info.etag, range); // … { start: 4, end: 10 }
  for await (const chunk of body) console.log(chunk.byteLength);
  // #endregion
  expect(range).toEqual({ start: 4, end: 10 });
});

test("keys and URIs map to each other", () => {
  // #region uris
  const uris = createUriMapper("files://demo/");
  const uri = uris.toUri("reports/50% off?.pdf");
  console.log(uri); // files://demo/reports/50%25%20off%3F.pdf
  console.log(uris.toKey(uri)); // reports/50% off?.pdf
  console.log(uris.template); // files://demo/{+key}
  // #endregion
  expect(uri).toBe("files://demo/reports/50%25%20off%3F.pdf");
});

test("errors tell what to do", async () => {
  const backend = createMemoryBackend();
  const lines: unknown[] = [];
  // #region errors
  try {
    await backend.open("missing.txt");
  } catch (error) {
    if (!SluiceError.is(error)) throw error;
    lines.push(error.code, error.retryable, error.message);
  }
  // #endregion
  expect(lines).toEqual(["not_found", false, 'memory: open "missing.txt": no such object']);
});

test("a wrapper changes one operation and keeps the others as they are", async () => {
  const lines: string[] = [];
  const logged = createLogged(createMemoryBackend({ a: "a" }), (line) => lines.push(line));
  await (await logged.open("a")).body.cancel();
  expect(lines).toEqual(["memory: open a"]);
});

test("a backend of one's own: describe, open, list", async () => {
  const parts = ["from ", "a ", "table"];
  const table = {
    version: async (key: string) => (key === "a" ? "7" : undefined),
    part: async (_: string, n: number) =>
      parts[n] === undefined ? undefined : new TextEncoder().encode(parts[n]),
    keys: async () => ["a"],
  };
  // #region backend
  async function find(key: string, { operation }: BackendCall): Promise<ObjectInfo> {
    const etag = await table.version(key);
    if (etag === undefined) throw new SluiceError("not_found", `${operation}: no such row`);
    return { key, etag };
  }
  const backend = defineBackend({
    name: "table",
    describe: find,
    async open(key, { signal, operation }) {
      const info = await find(key, { operation });
      let n = 0;
      const body = createBody({ next: () => table.part(key, n++), signal });
      // the parts are read one by one: look again before the last one is handed on
      const sealedBody = holdLastChunk(body, async () => {
        if ((await table.version(key)) === info.etag) return;
        throw new SluiceError("precondition_failed", `${operation}: the row has changed`);
      });
      return { info, body: sealedBody };
    },
    list: async () => ({ objects: (await table.keys()).map((key) => ({ key })) }),
  });
  // #endregion
  const { body } = await protect(backend).open("a");
  expect(await new Response(body).text()).toBe("from a table");
});

test("the kit runs as a script, and its exit code is the outcome", async () => {
  const { stdout } = await run("check-memory.ts");
  expect(stdout).toMatch(/\n\d+ kept · 0 broken · \d+ absent\n$/);
  expect(stdout).toContain("absent: the backend has no presign");
});

test("the kit runs under node:test, which shows what is absent as skipped", async () => {
  const { stdout } = await run("node-test.ts", "--test-reporter=tap");
  expect(stdout).toMatch(/# fail 0\n/);
  expect(stdout).toMatch(/# skipped [1-9]/);
});
