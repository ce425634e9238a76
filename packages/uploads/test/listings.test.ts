import { wrapBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { alice, bearer, noise, storageKinds } from "./upload-server.ts";

type Start = (typeof storageKinds)[number]["start"];

/** A server, and the prefixes that its storage was asked to list. */
async function startListing(start: Start) {
  const prefixes: string[] = [];
  const server = await start({
    uploads: { sweepIntervalMs: 3_600_000 },
    wrap: (backend: StorageBackend) =>
      wrapBackend(backend, {
        list: (list) => (query) => {
          prefixes.push(query?.prefix ?? "");
          return list(query);
        },
      }),
  });
  const slot = await server.slot();
  /** How often the prefix of the slot was listed since the last call. */
  const listings = (): number =>
    prefixes.splice(0).filter((prefix) => prefix === `uploads/1/${slot.uploadId}/`).length;
  return { server, slot, listings };
}

const claim = { name: "n", size: 500, mimeType: "application/octet-stream" };

describe.each(storageKinds)("over $kind", ({ isInSteps, start }) => {
  test("a resumable upload lists its prefix twice: as it begins and as it goes on", async () => {
    const { server, slot, listings } = await startListing(start);
    const headers = { ...bearer("alice"), "upload-complete": "?0", "upload-length": "500" };
    const begun = await fetch(slot.url, { method: "POST", headers, body: noise(200) });
    expect(begun.status).toBe(201);
    expect(listings()).toBe(1);
    const step = {
      ...bearer("alice"),
      "content-type": "application/partial-upload",
      "upload-offset": "200",
      "upload-complete": "?1",
    };
    const location = begun.headers.get("location")!;
    const ended = await fetch(location, { method: "PATCH", headers: step, body: noise(300) });
    expect(ended.status).toBe(201);
    expect(listings()).toBe(1);
    const [file] = await server.uploads.confirm(alice, slot.uploadId, [claim]);
    expect(file!.size).toBe(500);
  });

  test("a resumable upload in many steps lists its prefix twice where storage takes steps", async () => {
    const { slot, listings } = await startListing(start);
    const bytes = noise(1_000);
    const headers = { ...bearer("alice"), "upload-complete": "?0", "upload-length": "1000" };
    const begun = await fetch(slot.url, { method: "POST", headers });
    const location = begun.headers.get("location")!;
    for (let at = 0; at < 1_000; at += 100) {
      const step = {
        ...bearer("alice"),
        "content-type": "application/partial-upload",
        "upload-offset": String(at),
        "upload-complete": at === 900 ? "?1" : "?0",
      };
      const body = bytes.subarray(at, at + 100);
      const answer = await fetch(location, { method: "PATCH", headers: step, body });
      expect(answer.status).toBe(at === 900 ? 201 : 204);
    }
    expect(listings()).toBe(isInSteps ? 2 : 11);
  });

  test("no step asks for the version of what is there, which a folder tells after a wait", async () => {
    const described: string[] = [];
    const server = await start({
      uploads: { sweepIntervalMs: 3_600_000 },
      wrap: (backend: StorageBackend) =>
        wrapBackend(backend, {
          describe: (ask) => async (key, options) => {
            const info = await ask(key, options);
            described.push(key);
            return info;
          },
        }),
    });
    const { url } = await server.slot();
    const headers = { ...bearer("alice"), "upload-complete": "?0" };
    const begun = await fetch(url, { method: "POST", headers });
    for (const at of [0, 100, 200]) {
      const step = {
        ...bearer("alice"),
        "content-type": "application/partial-upload",
        "upload-offset": String(at),
        "upload-complete": at === 200 ? "?1" : "?0",
      };
      const init = { method: "PATCH", headers: step, body: noise(100) };
      const answer = await fetch(begun.headers.get("location")!, init);
      expect(answer.ok).toBe(true);
    }
    expect(described).toEqual([]);
  });

  test.for([
    ["in one piece", {}],
    ["resumable in one request", { "upload-complete": "?1" }],
  ] as const)("an upload %s lists its prefix once", async ([, told]) => {
    const { slot, listings } = await startListing(start);
    const init = { method: "POST", headers: { ...bearer("alice"), ...told }, body: noise(500) };
    expect((await fetch(slot.url, init)).status).toBe(201);
    expect(listings()).toBe(1);
  });

  test("a question how far a file is lists its prefix where its parts are objects", async () => {
    const { slot, listings } = await startListing(start);
    const headers = { ...bearer("alice"), "upload-complete": "?0" };
    const begun = await fetch(slot.url, { method: "POST", headers, body: noise(200) });
    listings();
    const init = { method: "HEAD", headers: bearer("alice") };
    expect((await fetch(begun.headers.get("location")!, init)).status).toBe(204);
    expect(listings()).toBe(isInSteps ? 0 : 1);
  });

  test("a file that is given up lists its prefix once", async () => {
    const { server, slot, listings } = await startListing(start);
    const headers = { ...bearer("alice"), "upload-complete": "?0" };
    const begun = await fetch(slot.url, { method: "POST", headers, body: noise(200) });
    listings();
    const init = { method: "DELETE", headers: bearer("alice") };
    expect((await fetch(begun.headers.get("location")!, init)).status).toBe(204);
    expect(listings()).toBe(1);
    expect(await server.files()).toEqual([]);
  });
});
