import { createHash } from "node:crypto";
import { SluiceError } from "@sluice/core";
import { wrapBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { alice, bearer, noise, storageKinds, type UploadServer } from "./upload-server.ts";

const bytes = noise(4_321);
const claim = {
  name: "a.bin",
  size: bytes.length,
  mimeType: "application/octet-stream",
  sha256: createHash("sha256").update(bytes).digest("hex"),
};

/** A storage that fails for calls of some objects, such as `remove file`, or after it did what was asked. */
function failing(): {
  readonly wrap: (backend: StorageBackend) => StorageBackend;
  readonly faults: Set<string>;
} {
  const faults = new Set<string>();
  const fail = (call: string, key: string): void => {
    const [kind] = /[a-z]+(?=-|$)/.exec(key.split("/").at(-1)!)!;
    if (faults.has(`${call} ${kind}`))
      throw new SluiceError("unavailable", `stub: ${call} ${kind}`);
  };
  const wrap = (backend: StorageBackend): StorageBackend =>
    wrapBackend(backend, {
      // in the order of services
      list: (list) => async (options) => {
        const page = await list(options);
        return { ...page, objects: page.objects.toSorted((a, b) => (a.key < b.key ? -1 : 1)) };
      },
      open: (open) => async (key, options) => (fail("open", key), open(key, options)),
      remove: (remove) => async (key, options) => (fail("remove", key), remove(key, options)),
      write: (write) => async (key, options) => {
        const writer = await write(key, options);
        return {
          ...writer,
          async commit() {
            const info = await writer.commit();
            fail("after writing", key);
            return info;
          },
        };
      },
    });
  return { wrap, faults };
}

const headers = { ...bearer("alice"), "content-disposition": `inline; filename="${claim.name}"` };

function finish(location: string): Promise<Response> {
  const step = { "content-type": "application/partial-upload", "upload-offset": "0" };
  const whole = { ...bearer("alice"), ...step, "upload-complete": "?1" };
  return fetch(location, { method: "PATCH", headers: whole, body: bytes });
}

async function expectConfirmed({ uploads }: UploadServer, uploadId: string): Promise<void> {
  const [file] = await uploads.confirm(alice, uploadId, [claim]);
  expect(Buffer.from(await file!.bytes()).equals(bytes)).toBe(true);
}

describe.each(storageKinds)("a record never outlives its bytes in $kind", ({ start }) => {
  test.each([
    [["after writing file"]],
    // the record is made, and neither read nor removed
    [["open confirmed", "remove file"]],
  ])("if a file is finished and storage fails: %j", async (calls) => {
    const { wrap, faults } = failing();
    const server = await start({ wrap });
    const { url, uploadId } = await server.slot();
    const begun = await fetch(url, {
      method: "POST",
      headers: { ...headers, "upload-complete": "?0" },
    });
    const location = begun.headers.get("location")!;
    for (const call of calls) faults.add(call);
    expect((await finish(location)).status).toBe(503);
    faults.clear();
    const asked = await fetch(location, { method: "HEAD", headers: bearer("alice") });
    const isWhole = asked.headers.get("upload-complete") === "?1";
    expect(isWhole ? 201 : (await finish(location)).status).toBe(201);
    await expectConfirmed(server, uploadId);
  });

  test("if a file comes at once and storage makes its record without a reply", async () => {
    const { wrap, faults } = failing();
    const server = await start({ wrap });
    const { url, uploadId } = await server.slot();
    faults.add("after writing file");
    expect((await fetch(url, { method: "PUT", headers, body: bytes })).status).toBe(503);
    faults.clear();
    await expectConfirmed(server, uploadId);
  });

  test("if an upload cannot be removed whole", async () => {
    const { wrap, faults } = failing();
    const server = await start({ wrap });
    const { url, uploadId } = await server.slot();
    expect((await fetch(url, { method: "PUT", headers, body: bytes })).status).toBe(201);
    faults.add("remove file");
    const wrong = [{ ...claim, size: 1 }];
    await expect(server.uploads.confirm(alice, uploadId, wrong)).rejects.toMatchObject({
      code: "unavailable",
    });
    faults.clear();
    await expectConfirmed(server, uploadId);
  });
});
