import { randomBytes } from "node:crypto";
import {
  appendFile,
  mkdir,
  mkdtemp,
  open,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SluiceError, type FileRegion } from "@sluice/core";
import type { Reply, TransferResult } from "@sluice/server/internal";
import type { EndpointRouter } from "@sluice/transport-http";
import { toNodeHandler, type OffloadOptions } from "@sluice/transport-http/node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { listen } from "./serve.ts";

const secret = "0123456789abcdef";
const bytes = randomBytes(100_000);
let folder: string;
let count = 0;
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "sluice-offload-")));
  await mkdir(join(folder, "files"));
});
afterAll(() => rm(folder, { recursive: true }));

/** What a test does differently. */
interface Differences {
  readonly path?: string;
  readonly region?: Partial<FileRegion>;
  readonly reply?: Partial<Reply>;
  readonly offload?: Partial<OffloadOptions>;
  readonly headers?: Record<string, string>;
  /** Between opening the file and answering. */
  readonly meanwhile?: (path: string) => Promise<void>;
  /** The proxy goes away before it has an answer. */
  readonly hangsUp?: boolean;
}

/** Asks, as the proxy does, for a file that was just written and opened. */
async function ask(differences: Differences = {}) {
  const { path, region, reply, offload, headers, meanwhile, hangsUp } = differences;
  const name = `${++count}.bin`;
  const place = path ?? join(folder, "files", name);
  await writeFile(place, bytes);
  const file = await open(place);
  const ends: TransferResult[] = [];
  let closed = 0;
  const source = {
    file: {
      fd: file.fd,
      start: 0,
      end: bytes.length,
      path: place,
      async verify() {
        if (!hangsUp) return;
        client.destroy();
        await gone;
      },
      async close() {
        if (closed++ === 0) await file.close();
      },
      ...region,
    },
    body: new ReadableStream<Uint8Array>(),
  };
  const answer: Reply = {
    status: 200,
    headers: [
      "Content-Type",
      "a/b",
      "Content-Length",
      "100000",
      "ETag",
      '"e"',
      "Accept-Ranges",
      "bytes",
    ],
    transfer: { source, promisedBytes: bytes.length, end: (result) => void ends.push(result) },
    ...reply,
  };
  await meanwhile?.(place);
  const router: EndpointRouter = {
    url: "http://127.0.0.1/mcp",
    base: "",
    gate: {
      refuseHost: () => undefined,
      refuseOrigin: () => undefined,
      refuse: () => undefined,
      corsHeaders: () => [],
    },
    routes: () => ({ kind: "stream", credential: "bearer", answer: async () => answer }),
  };
  const handler = toNodeHandler(
    { router, fetch: () => Promise.reject(new Error("not for routes of their own")) },
    { offload: { root: join(folder, "files"), prefix: "/_sluice/", secret, ...offload } },
  );
  const server = createServer(handler);
  const gone = new Promise<void>((resolve) => {
    server.once("connection", (socket) => socket.once("close", () => resolve()));
  });
  const said = { "x-sluice-offload": secret, ...headers };
  const client = request(await listen(server), { headers: said, agent: false });
  const got = await new Promise<{ status: number; headers: string[]; body: Buffer }>((resolve) => {
    client.on("response", (res) => {
      const chunks: Buffer[] = [];
      res.on("data", (chunk: Buffer) => chunks.push(chunk));
      res.on("end", () =>
        resolve({ status: res.statusCode!, headers: res.rawHeaders, body: Buffer.concat(chunks) }),
      );
    });
    client.on("error", () => resolve({ status: 0, headers: [], body: Buffer.alloc(0) }));
    client.end();
  });
  await expect.poll(() => [ends.length, closed > 0]).toEqual([1, true]);
  const at = got.headers.indexOf("X-Accel-Redirect");
  return { ...got, name, end: ends[0]!, target: at < 0 ? undefined : got.headers[at + 1] };
}

describe("a file that the proxy in front sends", () => {
  test("is named by the path of the file; the headers go with it, without what the proxy says itself", async () => {
    const { target, name, headers, body, end } = await ask();
    expect([target, body.length, end]).toEqual([
      `/_sluice/${name}`,
      0,
      { outcome: "offloaded", bytes: bytes.length },
    ]);
    expect(headers.slice(0, headers.indexOf("X-Accel-Redirect"))).toEqual([
      "Content-Type",
      "a/b",
      "ETag",
      '"e"',
      "Content-Length",
      "0",
    ]);
  });

  test("has its name percent-encoded as bytes of UTF-8", async () => {
    const { target } = await ask({ path: join(folder, "files", "%2e ?#é\n;.bin") });
    expect(target).toBe("/_sluice/%252e%20%3F%23%C3%A9%0A%3B.bin");
  });

  test("is a range with its offsets, counted by its bytes", async () => {
    const part = { start: 5, end: 10 };
    const range = (total: number): Differences => ({
      region: part,
      reply: { status: 206, headers: ["Content-Range", `bytes 5-9/${total}`] },
      headers: { range: "bytes=5-9" },
    });
    const { end, headers } = await ask(range(bytes.length));
    expect([end, headers.includes("Content-Range")]).toEqual([
      { outcome: "offloaded", bytes: 5 },
      false,
    ]);
    // of an object that is not the whole file
    expect((await ask(range(50))).end).toEqual({ outcome: "complete", bytes: 5 });
  });
});

describe("a response that the server sends itself", () => {
  const own: Record<string, () => Differences> = {
    "without the secret": () => ({ headers: { "x-sluice-offload": "" } }),
    "with another secret": () => ({ headers: { "x-sluice-offload": `${secret}0` } }),
    "with the secret twice": () => ({ headers: { "x-sluice-offload": `${secret}, ${secret}` } }),
    "with the secret under another spelling": () => ({
      headers: { "x-sluice-offload": "", x_sluice_offload: secret },
    }),
    "the answer to a call on condition that there is no such file": () => ({
      headers: { "if-none-match": "*" },
    }),
    "a file beside the folder": () => ({ path: join(folder, "files-secret.bin") }),
    "a file whose path is not known": () => ({ region: { path: undefined as never } }),
    "an answer that offers no ranges": () => ({ reply: { headers: ["Accept-Ranges", "none"] } }),
    "a file that is longer than the object": () => ({
      meanwhile: (path) => appendFile(path, "more"),
    }),
    "a file whose name was taken": () => ({
      async meanwhile(path) {
        await writeFile(`${path}-new`, randomBytes(bytes.length));
        await rename(`${path}-new`, path);
      },
    }),
    "a file whose name is a link by now": () => ({
      async meanwhile(path) {
        await rename(path, join(folder, "aside"));
        await symlink(join(folder, "aside"), path);
      },
    }),
    "a file without a name": () => ({ meanwhile: (path) => rm(path) }),
  };
  test.each(Object.keys(own))("%s", async (name) => {
    const { target, body, end, headers } = await ask(own[name]!());
    expect([target, body.equals(bytes), end.outcome]).toEqual([undefined, true, "complete"]);
    expect(headers.join()).not.toContain("_sluice");
  });

  test("is an error without any bytes if the file changed", async () => {
    const changed = () => Promise.reject(new SluiceError("precondition_failed", "fs: changed"));
    const { status, target, end } = await ask({ region: { verify: changed } });
    expect([status, target, end.outcome]).toEqual([410, undefined, "failed"]);
  });
});

test("a proxy that goes away before it has the answer takes nothing over", async () => {
  const { status, end } = await ask({ hangsUp: true });
  expect([status, end]).toEqual([0, { outcome: "aborted", bytes: 0 }]);
});

test("options that cannot work are refused at the start", () => {
  const handler = { fetch: () => Promise.reject(new Error("never called")) };
  const good = { root: tmpdir(), prefix: "/_sluice/", secret };
  expect(toNodeHandler(handler, { offload: good })).toBeTypeOf("function");
  for (const [bad, told] of [
    [{ root: join(folder, "nowhere") }, /no folder/],
    [{ prefix: "/_sluice" }, /prefix/],
    [{ prefix: "/" }, /prefix/],
    [{ prefix: "/a/../b/" }, /prefix/],
    [{ secret: "short" }, /secret/],
    [{ secret: "0123456789 abcdef" }, /secret/],
  ] as const)
    expect(() => toNodeHandler(handler, { offload: { ...good, ...bad } })).toThrow(told);
});
