import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFsBackend } from "@sluice/storage-fs";
import { afterAll, expect, test } from "vitest";
import { createStorageOrigin, withSignedUrls } from "../src/lib/storage-origin.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-demo-test-"));
writeFileSync(join(root, "a b.txt"), "hello");
const storage = await createStorageOrigin(root, "secret");
afterAll(() => {
  storage.close();
  rmSync(root, { recursive: true });
});

test("a signed URL brings the bytes, also in ranges; an altered or expired one brings nothing", async () => {
  const backend = withSignedUrls(createFsBackend({ root }), storage.origin, "secret");
  const signed = await backend.presign!("a b.txt", { expiresInMs: 60_000 });
  const { url } = signed!;
  expect(await (await fetch(url)).text()).toBe("hello");
  const range = await fetch(url, { headers: { range: "bytes=1-2" } });
  expect([range.status, await range.text()]).toEqual([206, "el"]);

  const old = await backend.presign!("a b.txt", { expiresInMs: -1 });
  const others = [
    url.replace("a%20b", "a%20c"),
    url.replace(/expires=\d/, "expires=9"),
    url.replace(/signature=./, "signature="),
    url.split("?")[0]!,
    old!.url,
  ];
  for (const other of others) {
    const answer = await fetch(other);
    await answer.body?.cancel();
    expect(answer.status, other).toBe(403);
  }
});
