// @module-tag slow
import { createHash } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as wait } from "node:timers/promises";
import { formatKey, generateKey } from "@sluice/core";
import { removeAbandonedWrites } from "@sluice/storage-fs";
import { expect, onTestFinished, test } from "vitest";
import { serveInProcess } from "./upload-process.ts";
import { noise } from "./upload-server.ts";

// for each kind of storage; one takes about 0.6 s
const kills = process.env["SLUICE_DEEP"] ? 100 : 2;
const bytes = noise(6_000_000);
const sha256 = (content: Uint8Array): string => createHash("sha256").update(content).digest("hex");

/** Sends bytes in pieces until they are sent or the server is gone; the status, or 0. */
function send(
  url: string,
  method: string,
  headers: Record<string, string>,
  body: Uint8Array,
): Promise<number> {
  return new Promise((resolve) => {
    const sending = httpRequest(url, {
      method,
      headers: { ...headers, "content-length": String(body.length) },
    });
    sending.on("response", (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    // also after everything was sent
    sending.on("error", () => resolve(0));
    pipeline(Readable.from(paced(body)), sending).catch(() => resolve(0));
  });
}

async function* paced(body: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < body.length; at += 250_000) {
    yield body.subarray(at, at + 250_000);
    await wait(2);
  }
}

const step = (offset: number, complete: boolean): Record<string, string> => ({
  "content-type": "application/partial-upload",
  "upload-offset": String(offset),
  "upload-complete": complete ? "?1" : "?0",
});

interface FileFacts {
  readonly size: number;
  readonly sha256: string;
}

async function filesOf(url: string): Promise<FileFacts[]> {
  const overview = (await (await fetch(url)).json()) as { files: FileFacts[] };
  return overview.files.map(({ size, sha256: digest }) => ({ size, sha256: digest }));
}

test.for(["steps", "parts"])(
  "a server killed at any moment of an upload goes on with it or has nothing of it, never a part (%s)",
  { timeout: 600_000 },
  async (kind) => {
    const root = await mkdtemp(join(tmpdir(), "sluice-kill-"));
    const key = formatKey(generateKey());
    let served = await serveInProcess(root, key, kind);
    onTestFinished(async () => {
      await served.kill();
      await rm(root, { recursive: true, force: true });
    });
    for (let round = 0; round < kills; round++) {
      const [oneUrl = "", stepsUrl = ""] = served.urls;
      const begun = await fetch(served.now(stepsUrl), {
        method: "POST",
        headers: { "upload-complete": "?0" },
      });
      const location = begun.headers.get("location")!;
      const sent = Promise.all([
        send(served.now(oneUrl), "PUT", {}, bytes),
        send(served.now(location), "PATCH", step(0, true), bytes),
      ]);
      await wait((round * 37) % 230);
      await served.kill();
      const [one, steps] = await sent;
      served = await serveInProcess(root, key, kind);

      const whole = { size: bytes.length, sha256: sha256(bytes) };
      // an answer of success was the truth, and without one it is all or nothing
      const allowed = one === 201 ? [[whole]] : [[], [whole]];
      expect(allowed).toContainEqual(await filesOf(served.now(oneUrl)));
      const { headers } = await fetch(served.now(location), { method: "HEAD" });
      const offset = Number(headers.get("upload-offset"));
      const isComplete = headers.get("upload-complete") === "?1";
      expect(offset).toBeLessThanOrEqual(bytes.length);
      expect(isComplete || steps !== 201).toBe(true);
      expect(await filesOf(served.now(stepsUrl))).toEqual(isComplete ? [whole] : []);
      const rest = bytes.subarray(offset);
      const resumed = isComplete
        ? 201
        : await send(served.now(location), "PATCH", step(offset, true), rest);
      expect(resumed).toBe(201);
      expect(await filesOf(served.now(stepsUrl))).toEqual([whole]);
    }
    await removeAbandonedWrites({ root, olderThanMs: 0 });
    const left = (await readdir(root, { recursive: true })).filter((name) =>
      /part-|step-|plan-|[.]steps$/.test(name),
    );
    expect(left).toEqual([]);
  },
);
