import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import {
  link, lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, utimes, writeFile,
} from "node:fs/promises"; // prettier-ignore
import { once } from "node:events";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { join } from "node:path";
import { formatReprDigest } from "@sluice/core/internal";
import { afterEach, beforeEach, expect, test } from "vitest";
import { streamResource, type ResourceStream } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { sweepOrphans } from "../src/save/resume-record.ts";
import { startFileServer, type ServedFile } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";
import { startRawServer, type RawServer } from "./raw-server.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const uri = "x://a/b.bin";
const content = Buffer.alloc(6_000_001, "The quick brown fox ");
// enough for a thread that hashes beside the transfer
const large = Buffer.alloc(9_000_001, "The quick brown fox ");
const small = Buffer.alloc(50_000, "fox");
const sha = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const sha256 = sha(content);
const timeouts = { pauseScale: 0 };

function open(
  server: RawServer,
  options: Parameters<typeof streamResource>[2] = {},
): Promise<ResourceStream> {
  return streamResource(createRawClient(server.url, withStreaming()), uri, {
    timeouts,
    ...options,
  });
}

test(
  "a file is saved under the server's name, verified, and nothing else is left",
  { tags: "slow" },
  async () => {
    await using server = await startFileServer({
      content: large,
      digest: formatReprDigest(sha(large)),
    });
    const saved = await (await open(server)).saveTo(directory);
    const path = join(directory, "b.bin");
    const expected = {
      path,
      size: large.length,
      sha256: sha(large),
      verified: "digest",
      resumedBytes: 0,
    };
    expect(saved).toEqual(expected);
    expect((await readFile(saved.path)).equals(large)).toBe(true);
    expect(await readdir(directory)).toEqual(["b.bin"]);
  },
);

test.each(["direct", "redirect", "downloadUrl"] as const)(
  "%s delivery saves the same bytes",
  async (delivery) => {
    await using server = await startFileServer({ content: large, delivery });
    const saved = await (await open(server)).saveTo(`${directory}/new/`);
    expect([saved.sha256, saved.verified]).toEqual([sha(large), "length"]);
  },
);

test.each([2, 8, 16])(
  "the same bytes arrive over %i connections, in shares",
  async (connections) => {
    await using server = await startFileServer({ content: large, pace: 2 ** 15 });
    const saved = await (await open(server)).saveTo(directory, { connections });
    expect(saved.sha256).toBe(sha(large));
    expect(server.connections()).toBeGreaterThan(connections / 2);
    expect(await readdir(directory)).toEqual(["b.bin"]);
  },
);

test("connections that break again and again are mended", async () => {
  await using server = await startFileServer({ content, breakAfter: 2_500_000, pace: 2 ** 16 });
  for (const connections of [1, 4]) {
    const saved = await (
      await open(server)
    ).saveTo(join(directory, `out-${connections}`), { connections });
    expect(saved.sha256).toBe(sha256);
  }
});

test("shares of a server without ranges, or of a changed file, become one whole download", async () => {
  for (const change of ["no ranges", "new version"]) {
    const file: ServedFile = { content, pace: 2 ** 16, ranges: change !== "no ranges" };
    await using server = await startFileServer(file);
    const stream = await open(server);
    const latest = change === "new version" ? Buffer.alloc(5_000_000, "new") : content;
    if (change === "new version") Object.assign(file, { content: latest, etag: '"v2"' });
    const saved = await stream.saveTo(join(directory, change), { connections: 4 });
    expect(saved.sha256, change).toBe(sha(latest));
  }
});

test(
  "one connection starts again from zero when the file changes, and mixes nothing",
  { timeout: 600_000 },
  async () => {
    const runs = process.env["SLUICE_DEEP"] ? 1_000 : 3;
    for (let run = 0; run < runs; run++) {
      const versions = [Buffer.alloc(3_000_000, "A"), Buffer.alloc(2_000_000, "B")] as const;
      const file: ServedFile = {
        content: versions[0],
        breakAfter: Math.floor(((run + 1) / (runs + 1)) * 3_000_000),
      };
      await using server = await startFileServer(file);
      const stream = await open(server);
      const saved = await stream.saveTo(join(directory, `${run}`), {
        onProgress() {
          Object.assign(file, { content: versions[1], etag: '"v2"', breakAfter: undefined });
        },
      });
      expect(saved.sha256).toBe(sha(versions[1]));
      expect(saved.size).toBe(versions[1].length);
    }
  },
);

test("progress never lies: it grows to the size [SEP-2532/plan/progress]", async () => {
  await using server = await startFileServer({ content, pace: 2 ** 16 });
  for (const connections of [1, 4]) {
    const seen: number[] = [];
    const totals = new Set<number | undefined>();
    await (
      await open(server)
    ).saveTo(`${directory}/${connections}`, {
      connections,
      onProgress: ({ bytes, totalBytes }) => {
        seen.push(bytes);
        totals.add(totalBytes);
      },
    });
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    expect(seen.at(-1)).toBe(content.length);
    expect([...totals]).toEqual([content.length]);
  }
});

test("wrong bytes leave nothing behind", async () => {
  await using server = await startFileServer({ content, digest: formatReprDigest(sha(small)) });
  for (const resume of [false, true])
    await expect((await open(server)).saveTo(directory, { resume })).rejects.toMatchObject({
      code: "corrupt",
    });
  expect(await readdir(directory)).toEqual([]);
});

test("an empty file is a file", async () => {
  const empty = Buffer.alloc(0);
  await using server = await startFileServer({
    content: empty,
    digest: formatReprDigest(sha(empty)),
  });
  for (const [index, connections] of [1, 4].entries()) {
    const saved = await (
      await open(server)
    ).saveTo(join(directory, `${index}`), { connections, resume: true });
    expect([saved.size, saved.sha256]).toEqual([0, sha(empty)]);
  }
});

const hostileNames = [
  "../../etc/passwd", "/etc/passwd", "..", ".", "", "...", "a/../../b", "..\\..\\windows\\system32", "C:\\x",
  "C:x", "\\\\server\\share", "a\u0000b", "a\nb", "a\rb", "con", "CON.txt", "nul", "com1.log", "lpt9",
  "file.txt::$DATA", "x\u202egpj.exe", "\u200b", "\ufeff", "~", "~/x", "$HOME", "`id`", "-rf", "%2e%2e%2f",
  "..%2f..%2fetc%2fpasswd", "．．/x", "x".repeat(5_000), "é".repeat(500), ".bashrc", ".ssh/authorized_keys",
  " .x", "x. ", "a|b", "a*b?", "<x>", '"x"', "\ud800", "a;b", "日本語.txt", "..;/x", "./x", "x/", "x/.", "x/..",
]; // prettier-ignore

test(
  "the file is one component inside the folder, whatever name the server gives",
  { tags: "slow" },
  async () => {
    const file: ServedFile = { content: small };
    await using server = await startFileServer(file);
    const inside = join(directory, "inside");
    await mkdir(inside);
    for (const name of hostileNames) {
      const encoded = encodeURIComponent(Buffer.from(name).toString());
      const quoted = name.replaceAll(/[^\x20-\x7e]/g, "").replaceAll(/["\\]/g, "\\$&");
      for (const disposition of [
        `attachment; filename*=UTF-8''${encoded}`,
        `attachment; filename="${quoted}"`,
      ]) {
        file.disposition = disposition;
        const stream = await open(server);
        const saved = await stream.saveTo(inside);
        expect(saved.path.startsWith(`${inside}/`), name).toBe(true);
        expect(saved.path.slice(inside.length + 1), name).toMatch(/^[^/\\\0]+$/);
      }
    }
    expect(await readdir(directory)).toEqual(["inside"]);
    expect(await readdir(inside)).toHaveLength(2 * hostileNames.length);
  },
);

test("a file already at the final name is never written to or through", async () => {
  const victim = join(directory, "victim");
  await writeFile(victim, "precious");
  const plants: Record<string, (path: string) => Promise<unknown>> = {
    file: (path) => writeFile(path, "precious"),
    "symbolic link": (path) => symlink(victim, path),
    "dangling link": (path) => symlink(join(directory, "nowhere"), path),
    "hard link": (path) => link(victim, path),
    folder: (path) => mkdir(path),
    FIFO: async (path) => execFileSync("mkfifo", [path]),
  };
  await using server = await startFileServer({ content: small });
  for (const [name, plant] of Object.entries(plants)) {
    const folder = join(directory, `in ${name}`);
    await mkdir(folder);
    const path = join(folder, "b.bin");
    await plant(path);
    const before = await lstat(path);
    const saved = await (await open(server)).saveTo(folder);
    expect(saved.path, name).toBe(join(folder, "b (1).bin"));
    const after = await lstat(path);
    expect([after.ino, after.mtimeMs, after.size], name).toEqual([
      before.ino,
      before.mtimeMs,
      before.size,
    ]);
    expect((await readdir(folder)).toSorted()).toEqual(["b (1).bin", "b.bin"]);
  }
  expect(await readFile(victim, "utf8")).toBe("precious");
  expect(await readdir(directory)).not.toContain("nowhere");
});

test("a path that is taken is an error before a byte is fetched, unless it may be replaced", async () => {
  const path = join(directory, "mine.bin");
  await writeFile(path, "precious");
  await using server = await startFileServer({ content: small });
  const refused = (await open(server)).saveTo(path);
  await expect(refused).rejects.toMatchObject({
    code: "already_exists",
    message: expect.stringContaining("overwrite"),
  });
  expect(await readFile(path, "utf8")).toBe("precious");
  await (await open(server)).saveTo(path, { overwrite: true });
  expect((await readFile(path)).equals(small)).toBe(true);
});

test("a target that is not a file is never replaced, and nothing is fetched for it", async () => {
  await using server = await startFileServer({ content });
  const special = createServer().listen(join(directory, "special"));
  await once(special, "listening");
  await mkdir(join(directory, "b.bin"));
  for (const path of [join(directory, "special"), directory]) {
    const saving = (await open(server)).saveTo(path, { overwrite: true });
    await expect(saving).rejects.toMatchObject({ code: "already_exists" });
  }
  expect((await lstat(join(directory, "special"))).isSocket()).toBe(true);
  expect((await readdir(directory)).toSorted()).toEqual(["b.bin", "special"]);
  await new Promise((resolve) => special.close(resolve));
});

test("replacing a link replaces the link, not what it points at", async () => {
  const victim = join(directory, "victim");
  await writeFile(victim, "precious");
  const path = join(directory, "mine.bin");
  await symlink(victim, path);
  await using server = await startFileServer({ content: small });
  await (await open(server)).saveTo(path, { overwrite: true });
  expect((await lstat(path)).isFile()).toBe(true);
  expect(await readFile(victim, "utf8")).toBe("precious");
});

test("a hundred taken names are enough", async () => {
  await using server = await startFileServer({ content: small });
  await writeFile(join(directory, "b.bin"), "");
  await Promise.all(
    Array.from({ length: 99 }, (_, at) => writeFile(join(directory, `b (${at + 1}).bin`), "")),
  );
  await expect((await open(server)).saveTo(directory)).rejects.toMatchObject({
    code: "already_exists",
  });
  expect(await readdir(directory)).toHaveLength(100);
});

test("a folder that is missing or may not be written to says so, and closes the connection", async () => {
  await using server = await startFileServer({ content });
  await writeFile(join(directory, "file"), "mine");
  for (const [path, code] of [
    ["no/such/file", "not_found"],
    ["file/a.pdf", "invalid_argument"],
  ] as const)
    await expect((await open(server)).saveTo(join(directory, path))).rejects.toMatchObject({
      code,
      // a resource that is missing has the same code
      origin: "disk",
    });
  // a folder that refuses even root
  await expect((await open(server)).saveTo("/proc/self/file")).rejects.toMatchObject({
    code: expect.stringMatching(/^(not_found|permission_denied)$/),
  });
  await expect.poll(() => server.open(), { timeout: 3_500 }).toBe(0);
});

test("a file that cannot fit is refused before its bytes are fetched", async () => {
  let sent = 0;
  await using server = await startFileServer({
    content: small,
    before(_req, res) {
      res.writeHead(200, { "content-length": 2 ** 52, etag: '"v1"', "mcp-resource-uri": uri });
      res.write(small, () => (sent += small.length));
      return true;
    },
  });
  const stream = await open(server, { maxStreamBytes: Number.MAX_SAFE_INTEGER });
  await expect(stream.saveTo(directory)).rejects.toMatchObject({ code: "no_space" });
  expect(sent).toBeLessThanOrEqual(small.length);
  expect(await readdir(directory)).toEqual([]);
});

function descriptors(): Promise<number> {
  return readdir("/proc/self/fd")
    .then(({ length }) => length)
    .catch(() => 0);
}

test("an abort ends a save within a moment and leaves nothing, not even a descriptor", async () => {
  await using server = await startFileServer({ content, breakAfter: 5_000_000, pace: 2 ** 16 });
  const before = await descriptors();
  for (const connections of [1, 4]) {
    const abort = new AbortController();
    const reason = new Error("enough of it");
    const stream = await open(server, { signal: abort.signal, timeouts: { pauseScale: 100 } });
    const saving = stream.saveTo(directory, {
      connections,
      onProgress: ({ bytes }) => {
        if (bytes > 3_000_000) abort.abort(reason);
      },
    });
    await expect(saving).rejects.toBe(reason);
    expect(await readdir(directory)).toEqual([]);
  }
  await expect.poll(() => server.open(), { timeout: 3_500 }).toBe(0);
  await expect.poll(descriptors, { timeout: 3_500 }).toBeLessThanOrEqual(before);
});

test("an abort after the last byte still ends the save", async () => {
  await using server = await startFileServer({ content });
  for (const resume of [false, true]) {
    const abort = new AbortController();
    const reason = new Error("too late, but not quite");
    const stream = await open(server, { signal: abort.signal });
    const saving = stream.saveTo(directory, {
      resume,
      onProgress: ({ bytes, totalBytes }) => {
        if (bytes === totalBytes) abort.abort(reason);
      },
    });
    await expect(saving).rejects.toBe(reason);
    expect((await readdir(directory)).filter((name) => !name.startsWith("."))).toEqual([]);
  }
});

test("a stream is read or saved once: a second time would be an empty file", async () => {
  await using server = await startRawServer({
    stream(request, res) {
      // chunked, so that nothing tells how many bytes there should be
      res.writeHead(200, { etag: '"v1"', "mcp-resource-uri": request.params.uri }).end(small);
    },
  });
  const stream = await open(server);
  await stream.saveTo(directory);
  await expect(stream.saveTo(directory)).rejects.toThrow(TypeError);
  await expect(stream.body.getReader().read()).rejects.toThrow(TypeError);
  expect(await readdir(directory)).toEqual(["b.bin"]);
});

test("a progress callback that throws ends the save with what it threw, and leaves nothing", async () => {
  await using server = await startFileServer({ content });
  const mine = new Error("the caller's own");
  for (const connections of [1, 4]) {
    const onProgress = (): never => {
      throw mine;
    };
    const saving = (await open(server)).saveTo(directory, { connections, onProgress });
    await expect(saving).rejects.toBe(mine);
    expect(await readdir(directory)).toEqual([]);
  }
  await expect.poll(() => server.open(), { timeout: 3_500 }).toBe(0);
});

test("orphans of crashed runs go after a day, kept ones after a week, other people's files never", async () => {
  const name = "0123456789abcdef0123456789abcdef";
  const [part, kept] = [`.${name}.part`, `.${name}.kept`];
  const others = [`${name}.part`, ".hidden.part", `.${name}.party`];
  for (const file of [part, kept, `${kept}.json`, ...others])
    await writeFile(join(directory, file), "");
  const leftAfter = async (days: number): Promise<ReadonlySet<string>> => {
    await sweepOrphans(directory, Date.now() + days * 86_400_000);
    return new Set(await readdir(directory));
  };
  expect(await leftAfter(0.5)).toEqual(new Set([part, kept, `${kept}.json`, ...others]));
  expect(await leftAfter(2)).toEqual(new Set([kept, `${kept}.json`, ...others]));
  expect(await leftAfter(8)).toEqual(new Set(others));
});

test("a part that has the time of the server's file, and not its name yet, is not an orphan", async () => {
  const part = ".0123456789abcdef0123456789abcdef.part";
  await writeFile(join(directory, part), "whole");
  await utimes(join(directory, part), new Date(), new Date(0));
  await sweepOrphans(directory, Date.now());
  expect(await readdir(directory)).toEqual([part]);
});

test.each([1, 200_000])(
  "a save of %i bytes whose signal aborted before it began rejects with the reason, and leaves nothing",
  async (bytes) => {
    await using server = await startFileServer({ content: large.subarray(0, bytes) });
    const abort = new AbortController();
    const stream = await open(server, { signal: abort.signal });
    // all of it is here
    await sleep(50);
    const reason = new Error("enough");
    abort.abort(reason);
    await sleep(50);
    await expect(stream.saveTo(directory)).rejects.toBe(reason);
    expect(await readdir(directory)).toEqual([]);
  },
);
