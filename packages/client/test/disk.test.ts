import { execFileSync } from "node:child_process";
import { mkdtemp, open as openFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { streamResource, withStreaming } from "@sluice/client/node";
import { partFileOf } from "../src/lib/part-file.ts";
import { createRawClient } from "./raw-client.ts";
import { startRawServer } from "./raw-server.ts";

const uri = "x://a/b.bin";

/** A file system of a few megabytes, where this process may mount one. */
async function mountTiny(): Promise<(AsyncDisposable & { path: string }) | undefined> {
  const path = await mkdtemp(join(tmpdir(), "sluice-tiny-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", path], { stdio: "ignore" });
  } catch {
    await rm(path, { recursive: true });
    return undefined;
  }
  return {
    path,
    async [Symbol.asyncDispose]() {
      execFileSync("umount", ["-l", path], { stdio: "ignore" });
      await rm(path, { recursive: true });
    },
  };
}

test("a disk that fills up on the way is no_space, and everything written is given back", async (context) => {
  await using disk = await mountTiny();
  if (!disk) {
    context.skip("this process may not mount a small file system");
    return;
  }
  const bytes = Buffer.alloc(8_000_000, "x");
  await using server = await startRawServer({
    stream(request, res) {
      // no length: nobody can know beforehand that it does not fit
      res.writeHead(200, { etag: '"v1"', "mcp-resource-uri": request.params.uri }).end(bytes);
    },
  });
  for (const resume of [false, true]) {
    const stream = await streamResource(createRawClient(server.url, withStreaming()), uri);
    const saving = stream.saveTo(disk.path, { resume });
    await expect(saving).rejects.toMatchObject({
      code: "no_space",
      message: expect.stringContaining("make room"),
    });
    expect(await readdir(disk.path)).toEqual([]);
  }
  await expect.poll(() => server.open(), { timeout: 3_500 }).toBe(0);
});

test("a write that the disk refuses reaches whoever writes next, once and by its cause", async () => {
  const part = partFileOf(await openFile("/dev/full", "r+"), "/dev/full", 0);
  const lane = part.lane(2 ** 20);
  const block = Buffer.alloc(2 ** 20);
  const writing = async (): Promise<void> => {
    for (let at = 0; at < 64 * block.length; at += block.length) await lane.write(block, at);
  };
  await expect(writing()).rejects.toMatchObject({ code: "no_space" });
  await expect(part.finish()).rejects.toMatchObject({ code: "no_space" });
  expect(part.gapless()).toBe(0);
  await part.close();
});
