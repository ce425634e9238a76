import { createHash } from "node:crypto";
import { request as httpRequest } from "node:http";
import { SluiceError } from "@sluice/core";
import { describe, expect, test } from "vitest";
import {
  alice,
  bearer,
  noise,
  png,
  startUploadServer,
  storageKinds,
  type UploadServer,
} from "./upload-server.ts";

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

type Fields = Record<string, string>;

function ask(
  url: string,
  method: string,
  headers: Fields = {},
  body?: Uint8Array<ArrayBuffer>,
): Promise<Response> {
  return fetch(url, { method, headers: { ...bearer("alice"), ...headers }, ...(body && { body }) });
}

/** Begins a file without any bytes. */
async function begin(url: string, headers: Fields = {}): Promise<string> {
  const answer = await ask(url, "POST", { "upload-complete": "?0", ...headers });
  expect(answer.status).toBe(201);
  return answer.headers.get("location")!;
}

function append(
  location: string,
  offset: number,
  body: Uint8Array<ArrayBuffer>,
  complete = false,
): Promise<Response> {
  const headers = {
    "content-type": "application/partial-upload",
    "upload-offset": String(offset),
    "upload-complete": complete ? "?1" : "?0",
  };
  return ask(location, "PATCH", headers, body);
}

async function offsetOf(location: string): Promise<number> {
  const { headers } = await ask(location, "HEAD");
  return Number(headers.get("upload-offset"));
}

// what begins an empty file, and what completes it: at once, or with a last step
test.each([
  ["draft-01 and -02", { "upload-incomplete": "?0" }, "?1"],
  [
    "draft-03, in one request",
    { "upload-draft-interop-version": "5", "upload-complete": "?1" },
    "?1",
  ],
  [
    "draft-03, as tus-js-client",
    { "upload-draft-interop-version": "5", "upload-complete": "?0", "upload-length": "0" },
    "?1",
  ],
  [
    "draft-05, as tus-js-client",
    { "upload-draft-interop-version": "6", "upload-complete": "?0", "upload-length": "0" },
    "?1",
  ],
  [
    "draft-05, of unknown length",
    { "upload-draft-interop-version": "6", "upload-complete": "?0" },
    "?0",
  ],
  [
    "draft-08, in one request",
    { "upload-draft-interop-version": "8", "upload-complete": "?1" },
    "?1",
  ],
  [
    "draft-08, with a last step",
    { "upload-draft-interop-version": "8", "upload-complete": "?0", "upload-length": "0" },
    "?0",
  ],
  ["the final form, with a last step", { "upload-complete": "?0", "upload-length": "0" }, "?0"],
])("an empty file is complete as its client expects: %s", async (_draft, headers, complete) => {
  const server = await startUploadServer();
  const { url, uploadId } = await server.slot();
  const fields = { ...bearer("alice"), ...(headers as Record<string, string>) };
  const begun = await fetch(url, { method: "POST", headers: fields });
  expect(begun.status).toBe(201);
  expect(begun.headers.get("upload-complete") ?? "?1").toBe(complete);
  const size = async () =>
    (await server.uploads.received(alice, uploadId).catch(() => []))[0]?.size;
  expect(await size()).toBe(complete === "?1" ? 0 : undefined);
  const location = begun.headers.get("location");
  expect(location !== null).toBe("upload-complete" in headers);
  if (complete === "?1") return;
  const last = {
    "upload-offset": "0",
    "upload-complete": "?1",
    "content-type": "application/partial-upload",
  };
  await fetch(location!, { method: "PATCH", headers: { ...bearer("alice"), ...last } });
  expect(await size()).toBe(0);
});

test("every answer about a file says how long its steps may be, if the endpoint has maxStepBytes", async () => {
  const server = await startUploadServer({ uploads: { maxStepBytes: 2 ** 20 } });
  const { url } = await server.slot();
  const create = { ...bearer("alice"), "upload-complete": "?0", "upload-length": "5" };
  const begun = await fetch(url, { method: "POST", headers: create });
  const location = begun.headers.get("location")!;
  const tus = { ...bearer("alice"), "tus-resumable": "1.0.0" };
  const answers = [
    begun,
    await fetch(location, { method: "HEAD", headers: bearer("alice") }),
    await fetch(location, { method: "HEAD", headers: tus }),
    await fetch(url, { headers: bearer("alice") }),
  ];
  for (const { headers } of answers)
    expect(headers.get("upload-limit")).toMatch(
      /^max-size=50000000, max-append-size=1048576, max-age=\d+$/,
    );
  for (const maxStepBytes of [65_535, 65_536.5, Infinity])
    await expect(startUploadServer({ uploads: { maxStepBytes } })).rejects.toThrow(
      "createUploads: maxStepBytes must be a whole number from 65536",
    );
});

describe.each(storageKinds)("over $kind", ({ isInSteps, start }) => {
  test("a file in three steps is the file, with its digest", { tags: "slow" }, async () => {
    const server = await start();
    const { url, uploadId } = await server.slot();
    const bytes = noise(9_000_000);
    const location = await begin(url, {
      "upload-length": String(bytes.length),
      "content-disposition": "inline; filename=big.bin",
      "repr-digest": `sha-256=:${createHash("sha256").update(bytes).digest("base64")}:`,
    });
    expect(location.startsWith(`${url}/`)).toBe(true);
    const second = await append(location, 0, bytes.subarray(0, 100));
    expect([
      second.status,
      second.headers.get("upload-offset"),
      second.headers.get("upload-complete"),
    ]).toEqual([204, "100", "?0"]);
    expect((await append(location, 100, bytes.subarray(100, 8_500_000))).status).toBe(204);
    const state = await ask(location, "HEAD");
    expect(state.status).toBe(204);
    expect(Object.fromEntries(state.headers)).toMatchObject({
      "upload-offset": "8500000",
      "upload-complete": "?0",
      "upload-length": "9000000",
      "upload-limit": expect.stringMatching(/^max-size=50000000, max-age=\d+$/),
      "cache-control": expect.stringContaining("no-store"),
    });
    const last = await append(location, 8_500_000, bytes.subarray(8_500_000), true);
    expect([last.status, last.headers.get("upload-complete")]).toEqual([201, "?1"]);
    const facts = {
      name: "big.bin",
      size: bytes.length,
      mimeType: "application/octet-stream",
      sha256: sha256(bytes),
    };
    expect(await last.json()).toMatchObject({ uploadId, ...facts });
    const whole = await ask(location, "HEAD");
    expect([whole.headers.get("upload-complete"), whole.headers.get("upload-offset")]).toEqual([
      "?1",
      "9000000",
    ]);
    // its bytes and its record: the parts are gone
    expect(await server.files()).toHaveLength(2);
    const [file] = await server.uploads.confirm(alice, uploadId, [facts]);
    const { body } = await file!.open();
    expect(Buffer.from(await new Response(body).arrayBuffer()).equals(bytes)).toBe(true);
  });

  test("parts that outlived their whole file are gone when a client asks how far it is", async () => {
    let isStuck = true;
    const server = await start({
      wrap: (backend) => ({
        ...backend,
        async remove(key, options) {
          if (isStuck) throw new SluiceError("unavailable", "the process stopped here");
          return backend.remove!(key, options);
        },
      }),
    });
    const { url } = await server.slot();
    const location = await begin(url);
    expect((await append(location, 0, noise(1_000), true)).status).toBe(503);
    // bytes, record, plan, and a part where there are parts
    expect(await server.files()).toHaveLength(isInSteps ? 3 : 4);
    const stuck = await ask(location, "HEAD");
    expect([stuck.status, stuck.headers.get("upload-complete")]).toEqual([204, "?1"]);
    isStuck = false;
    expect((await ask(location, "HEAD")).headers.get("upload-complete")).toBe("?1");
    expect(await server.files()).toHaveLength(2);
  });

  test("a client that disconnects while leftover parts are removed causes no error", async () => {
    let isStopped = true;
    let isRemoving = false;
    const server = await start({
      wrap: (backend) => ({
        ...backend,
        remove(_key, { signal } = {}) {
          if (isStopped) throw new SluiceError("unavailable", "the process stopped here");
          isRemoving = true;
          return new Promise((_resolve, reject) => {
            signal?.addEventListener("abort", () => reject(signal.reason as Error));
          });
        },
      }),
    });
    const location = await begin((await server.slot()).url);
    expect((await append(location, 0, noise(1_000), true)).status).toBe(503);
    server.errors.length = 0;
    isStopped = false;
    const asking = httpRequest(location, { method: "HEAD", headers: bearer("alice") });
    asking.on("error", () => {}).end();
    await expect.poll(() => isRemoving).toBe(true);
    asking.destroy();
    // this one waits until the other has let go of the file
    expect((await append(location, 1_000, noise(1), true)).status).toBe(409);
    expect(server.errors).toEqual([]);
  });

  test("a resumable upload may be complete in one request", async () => {
    const server = await start();
    const { url, uploadId } = await server.slot();
    const answer = await ask(url, "PUT", { "upload-complete": "?1" }, noise(70_000));
    expect([answer.status, answer.headers.get("upload-complete")]).toEqual([201, "?1"]);
    expect(await server.uploads.received(alice, uploadId)).toMatchObject([{ size: 70_000 }]);
    const empty = await server.slot();
    const location = await begin(empty.url);
    expect((await append(location, 0, new Uint8Array(0), true)).status).toBe(201);
  });

  test("several files of one slot have an address each", async () => {
    const server = await start();
    const { url, uploadId } = await server.slot({ maxFiles: 2 });
    const locations = [await begin(url), await begin(url)];
    await append(locations[1]!, 0, noise(20), true);
    await append(locations[0]!, 0, noise(10), true);
    expect((await server.uploads.received(alice, uploadId)).map(({ size }) => size)).toEqual([
      20, 10,
    ]);
    expect((await ask(url, "POST", { "upload-complete": "?0" })).status).toBe(409);
  });

  describe("refused", () => {
    test("a step at another offset, which is told the right one", async () => {
      const server = await start();
      const location = await begin((await server.slot()).url);
      await append(location, 0, noise(1_000));
      for (const wrong of [0, 999, 1_001]) {
        const answer = await append(location, wrong, noise(10));
        expect([answer.status, answer.headers.get("upload-offset")]).toEqual([409, "1000"]);
        expect(await answer.json()).toMatchObject({
          type: "https://iana.org/assignments/http-problem-types#mismatching-upload-offset",
          "expected-offset": 1_000,
        });
      }
      expect(await offsetOf(location)).toBe(1_000);
    });

    test("the same part a second time, at once or after the other", async () => {
      const server = await start();
      const location = await begin((await server.slot()).url);
      const part = noise(300_000);
      const answers = await Promise.allSettled([
        append(location, 0, part),
        append(location, 0, part),
      ]);
      const statuses = answers.map((answer) =>
        answer.status === "fulfilled" ? answer.value.status : 0,
      );
      // the newer ends the older one, and finds what that had kept
      expect(statuses.filter((status) => status === 204).length).toBeLessThanOrEqual(1);
      const offset = await offsetOf(location);
      expect(offset).toBeLessThanOrEqual(300_000);
      expect((await append(location, 0, part)).status).toBe(offset === 0 ? 204 : 409);
    });

    test("steps that do not say what they are", async () => {
      const server = await start();
      const location = await begin((await server.slot()).url);
      const type = { "content-type": "application/partial-upload" };
      for (const [headers, status] of [
        [{ "upload-offset": "0", "upload-complete": "?0" }, 415],
        [{ ...type, "upload-complete": "?0" }, 400],
        [{ ...type, "upload-offset": "0" }, 400],
        [{ ...type, "upload-offset": "-1", "upload-complete": "?0" }, 400],
        [{ ...type, "upload-offset": "0", "upload-complete": "1" }, 400],
      ] as const)
        expect((await ask(location, "PATCH", headers, noise(5))).status).toBe(status);
      expect(await offsetOf(location)).toBe(0);
    });

    test("lengths that do not agree", async () => {
      const server = await start();
      const location = await begin((await server.slot()).url, { "upload-length": "100" });
      expect((await append(location, 0, noise(99), true)).status).toBe(400);
      expect((await append(location, 0, noise(101))).status).toBe(413);
      // a file that went over its length is void
      expect((await ask(location, "HEAD")).status).toBe(404);
      await expect.poll(() => server.files()).toEqual([]);
      const large = await ask((await server.slot({ maxBytes: 10 })).url, "POST", {
        "upload-complete": "?0",
        "upload-length": "11",
      });
      expect(large.status).toBe(413);
    });

    test("a file of another type or digest, and nothing is kept", async () => {
      const server = await start();
      const location = await begin((await server.slot({ accept: ["image/png"] })).url, {
        "content-type": "image/png",
      });
      expect((await append(location, 0, noise(9_000))).status).toBe(415);
      await expect.poll(() => server.files()).toEqual([]);
      const small = await begin((await server.slot({ accept: ["image/*"] })).url, {
        "content-type": "image/gif",
      });
      expect((await append(small, 0, png(100), true)).status).toBe(415);
      const digest = `sha-256=:${Buffer.alloc(32).toString("base64")}:`;
      const wrong = await begin((await server.slot()).url, { "repr-digest": digest });
      const answer = await append(wrong, 0, noise(100), true);
      expect([answer.status]).toEqual([422]);
      await expect.poll(() => server.files()).toEqual([]);
    });

    test("a request that is not the owner's, and invalid ids", async () => {
      const server = await start();
      const { url } = await server.slot();
      const location = await begin(url);
      for (const method of ["HEAD", "PATCH", "DELETE"]) {
        expect((await fetch(location, { method, headers: bearer("bob") })).status).toBe(404);
        expect((await fetch(location, { method })).status).toBe(401);
        for (const id of ["..", "x", "%2e%2e", "A".repeat(32), `${"A".repeat(32)}/..%2f`])
          expect((await ask(`${url}/${id}`, method)).status).toBeGreaterThanOrEqual(400);
      }
      expect(await offsetOf(location)).toBe(0);
    });

    test("a step after the last one", async () => {
      const server = await start();
      const location = await begin((await server.slot()).url);
      await append(location, 0, noise(50), true);
      expect((await append(location, 50, noise(50), true)).status).toBe(409);
      expect(await offsetOf(location)).toBe(50);
    });
  });

  test("a file that is given up no longer counts as received", async () => {
    const server = await start();
    const { url, uploadId } = await server.slot({ maxFiles: 2 });
    const [location, kept] = [await begin(url), await begin(url)];
    await append(location, 0, noise(500));
    await append(kept, 0, noise(30));
    expect(server.uploads.progress(uploadId).bytes).toBe(530);
    expect((await ask(location, "DELETE")).status).toBe(204);
    expect(server.uploads.progress(uploadId).bytes).toBe(30);
  });

  test("a file that is given up is gone, and one that is confirmed cannot be", async () => {
    const server = await start();
    const { url, uploadId } = await server.slot();
    const location = await begin(url);
    await append(location, 0, noise(500));
    expect((await ask(location, "DELETE")).status).toBe(204);
    expect((await ask(location, "DELETE")).status).toBe(404);
    expect(await server.files()).toEqual([]);
    const other = await begin(url);
    await append(other, 0, noise(500), true);
    const claim = { name: "n", size: 500, mimeType: "application/octet-stream" };
    const [file] = await server.uploads.confirm(alice, uploadId, [claim]);
    expect((await ask(other, "DELETE")).status).toBe(409);
    expect((await file!.open()).info.size).toBe(500);
  });

  /** Sends a part of a body that was announced to be longer, and hangs up. */
  async function cutOff(
    server: UploadServer,
    url: string,
    method: string,
    headers: Fields,
    bytes: Uint8Array,
  ): Promise<void> {
    const { uploadId } = /\/uploads\/(?<uploadId>[^/]+)/.exec(url)!.groups as { uploadId: string };
    expect(uploadId).not.toBe("");
    const sending = httpRequest(url, {
      method,
      headers: { ...bearer("alice"), ...headers, "content-length": String(bytes.length + 1_000) },
    });
    sending.on("error", () => {});
    const closed = new Promise<void>((resolve) => sending.once("close", () => resolve()));
    const before = server.records.length;
    sending.write(bytes);
    await expect
      .poll(() => server.server.listenerCount("request") && sending.writableLength)
      .toBe(0);
    await expect
      .poll(async () => {
        const overview = await fetch(url.split("/").slice(0, 6).join("/"), {
          headers: bearer("alice"),
        });
        return ((await overview.json()) as { received: number }).received;
      })
      .toBe(bytes.length);
    sending.destroy();
    await closed;
    await expect.poll(() => server.records.length).toBeGreaterThan(before);
  }

  test("a body that is cut off keeps what came in steps, and nothing of one that came at once", async () => {
    const server = await start();
    const { url } = await server.slot();
    const bytes = noise(100_000);
    await cutOff(server, url, "PUT", {}, bytes);
    await expect.poll(() => server.files()).toEqual([]);
    expect(server.records.at(-1)).toMatchObject({
      step: "receive",
      outcome: "aborted",
      bytes: 100_000,
    });

    const location = await begin(url);
    const step = {
      "content-type": "application/partial-upload",
      "upload-offset": "0",
      "upload-complete": "?1",
    };
    await cutOff(server, location, "PATCH", step, bytes);
    expect(await offsetOf(location)).toBe(100_000);
    const rest = noise(1_000);
    const last = await append(location, 100_000, rest, true);
    expect(await last.json()).toMatchObject({
      size: 101_000,
      sha256: sha256(Buffer.concat([bytes, rest])),
    });
  });

  test("a digest of the content counts where the content is the whole file, and not for a step", async () => {
    const server = await start();
    const bytes = noise(500);
    const digestOf = (part: Uint8Array): Fields => ({
      "content-digest": `sha-256=:${createHash("sha256").update(part).digest("base64")}:`,
    });
    const whole = { "upload-complete": "?1" };
    const wrong = { ...whole, ...digestOf(noise(9)) };
    expect((await ask((await server.slot()).url, "POST", wrong, bytes)).status).toBe(422);
    const right = { ...whole, ...digestOf(bytes) };
    expect((await ask((await server.slot()).url, "POST", right, bytes)).status).toBe(201);
    const first = { "upload-complete": "?0", ...digestOf(bytes.subarray(0, 200)) };
    const begun = await ask((await server.slot()).url, "POST", first, bytes.subarray(0, 200));
    const ended = await append(begun.headers.get("location")!, 200, bytes.subarray(200), true);
    expect(ended.status).toBe(201);
    expect(await ended.json()).toMatchObject({ sha256: sha256(bytes) });
  });

  test("if the slot is full, the last step of a file neither copies nor scans it", async () => {
    const opened: string[] = [];
    let scans = 0;
    const server = await start({
      uploads: {
        scan: () => {
          scans += 1;
          return "clean";
        },
      },
      wrap: (backend) => ({
        ...backend,
        open: (key, options) => {
          opened.push(key);
          return backend.open(key, options);
        },
      }),
    });
    const slot = await server.slot();
    const location = await begin(slot.url);
    expect((await append(location, 0, noise(1_000))).status).toBe(204);
    expect((await ask(slot.url, "PUT", {}, noise(500))).status).toBe(201);
    expect(scans).toBe(1);
    for (const phase of ["full", "confirmed"]) {
      opened.length = 0;
      const last = await append(location, 1_000, new Uint8Array(), true);
      expect(last.status, phase).toBe(409);
      expect(opened.filter((key) => key.includes("/part-"))).toEqual([]);
      expect(scans).toBe(1);
      if (phase === "confirmed") break;
      const claim = { name: "n", size: 500, mimeType: "application/octet-stream" };
      await server.uploads.confirm(alice, slot.uploadId, [claim]);
    }
  });
});
