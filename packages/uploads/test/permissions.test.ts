import { lstat, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { wrapBackend } from "@sluice/storage";
import { expect, onTestFinished, test } from "vitest";
import { alice, bearer, noise, startUploadServer, type UploadServer } from "./upload-server.ts";

/** Modes of all files, or of all folders, below the root of a server. */
async function modesIn(root: string): Promise<{ files: Set<number>; folders: Set<number> }> {
  const modes = { files: new Set<number>(), folders: new Set<number>() };
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const { mode } = await lstat(join(entry.parentPath, entry.name));
    (entry.isDirectory() ? modes.folders : modes.files).add(mode & 0o777);
  }
  return modes;
}

/** A whole file, one of which a step has come, and a confirmed one. */
async function sendThree(server: UploadServer): Promise<void> {
  const put = { method: "PUT", headers: bearer("alice"), body: noise(1_000) };
  expect((await fetch((await server.slot()).url, put)).status).toBe(201);
  const headers = { ...bearer("alice"), "upload-complete": "?0" };
  const begun = { method: "POST", headers, body: noise(1_000) };
  expect((await fetch((await server.slot()).url, begun)).status).toBe(201);
  const confirmed = await server.slot();
  expect((await fetch(confirmed.url, put)).status).toBe(201);
  const claim = { name: "n", size: 1_000, mimeType: "application/octet-stream" };
  await server.uploads.confirm(alice, confirmed.uploadId, [claim]);
}

test("other users of the machine can read nothing of an upload", async (context) => {
  context.skip(process.platform === "win32", "Windows has no modes of files");
  const root = await mkdtemp(join(tmpdir(), "sluice-modes-"));
  onTestFinished(() => rm(root, { recursive: true }));
  await sendThree(await startUploadServer({ root }));
  expect(await modesIn(root)).toEqual({ files: new Set([0o600]), folders: new Set([0o700]) });
});

test("negative control: a backend without that option lets them read it", async (context) => {
  context.skip(process.platform === "win32", "Windows has no modes of files");
  const root = await mkdtemp(join(tmpdir(), "sluice-modes-"));
  onTestFinished(() => rm(root, { recursive: true }));
  const server = await startUploadServer({
    root,
    wrap: (backend) =>
      wrapBackend(backend, {
        write: (write) => (key, options) => write(key, { ...options, private: false }),
        writeInSteps: (writeInSteps) => (key, options) =>
          writeInSteps(key, { ...options, private: false }),
      }),
  });
  await sendThree(server);
  await writeFile(join(root, "plain"), "");
  const { mode } = await lstat(join(root, "plain"));
  expect((await modesIn(root)).files).toEqual(new Set([mode & 0o777]));
});
