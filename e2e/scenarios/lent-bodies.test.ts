// @module-tag slow
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer as createHttpServer, request as forward } from "node:http";
import { connect, createServer, type AddressInfo, type Server } from "node:net";
import { ContainerClient, StorageSharedKeyCredential } from "@azure/storage-blob";
import type { Lending } from "@sluice/core";
import { flowOf } from "@sluice/core/internal";
import { startGraphEmulator } from "@sluice/graph-emulator";
import { protect, type StorageBackend } from "@sluice/storage";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { createGraphBackend } from "@sluice/storage-graph";
import { createS3Backend } from "@sluice/storage-s3";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { startFaultProxy } from "../../packages/storage-azure-blob/test/fault-proxy.ts";
import { startS3StandIn } from "../../packages/storage-s3/test/stand-in/stand-in.ts";

const mib = 2 ** 20;
const content = randomBytes(12 * mib);
const sha = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const lending: Lending = { blocks: 4, blockBytes: 256 * 1024 };
const generated = {
  size: content.length,
  read: (start: number, end: number) => content.subarray(start, end),
};

/** A service with the content as `large`; opens a backend of it, behind another origin where one is given. */
interface Opened {
  readonly origin: string;
  open(origin?: string): StorageBackend;
}

const key = Buffer.from("key").toString("base64");

const services: Readonly<Record<string, () => Promise<Opened>>> = {
  async S3() {
    const s3 = await startS3StandIn();
    onTestFinished(() => s3[Symbol.asyncDispose]());
    s3.put("large", generated);
    s3.put("small", content.subarray(0, mib));
    const { bucket, endpoint, credentials } = s3;
    return {
      origin: endpoint,
      open: (origin = endpoint) => createS3Backend({ bucket, endpoint: origin, credentials }),
    };
  },
  async "Azure Blob"() {
    const service = await startFaultProxy(new ContainerClient("http://127.0.0.1:1/account/docs"));
    onTestFinished(() => service[Symbol.asyncDispose]());
    service.generated.set("large", { size: content.length, tail: content });
    service.generated.set("small", { size: mib, tail: content.subarray(0, mib) });
    const credential = new StorageSharedKeyCredential("account", key);
    return {
      origin: service.url,
      open: (origin = service.url) =>
        createAzureBlobBackend({ url: `${origin}/account/docs`, credential }),
    };
  },
  async Graph() {
    const emulator = await startGraphEmulator();
    onTestFinished(() => emulator[Symbol.asyncDispose]());
    emulator.drive.put("large", generated);
    emulator.drive.put("small", content.subarray(0, mib));
    const { credential, drive, origins } = emulator;
    return {
      origin: origins.graph,
      open: (baseUrl = origins.graph) =>
        createGraphBackend({ credential, driveId: drive.id, baseUrl }),
    };
  },
};

/** Reads a body as a slow network would: what is lent is looked at and given back later. */
async function pumpSlowly(body: ReadableStream<Uint8Array>, honest = true) {
  const parts: Buffer[] = [];
  const pending: Promise<void>[] = [];
  let lent = 0;
  await flowOf(body).pump((chunk, release) => {
    const index = parts.push(Buffer.alloc(0)) - 1;
    if (!release) return void (parts[index] = Buffer.from(chunk));
    lent += chunk.length;
    if (!honest) release();
    const later = new Promise<void>((resolve) => setTimeout(resolve, index % 3));
    const done = later.then(() => {
      parts[index] = Buffer.from(chunk);
      return honest ? release() : undefined;
    });
    pending.push(done);
    return index % 3 === 0 ? done : undefined;
  }, lending);
  await Promise.all(pending);
  return { sha256: sha(Buffer.concat(parts)), lent };
}

const countSockets = (): number =>
  process.getActiveResourcesInfo().filter((kind) => kind === "TCPSocketWrap").length;

/** Bytes between a client and a server; the connections that `cuts` names end after so many bytes of answers. */
async function startRelay(origin: string, cuts: readonly number[]) {
  const target = new URL(origin);
  let connections = 0;
  const relay: Server = createServer((client) => {
    let left = cuts[connections++] ?? Infinity;
    const server = connect(Number(target.port), target.hostname);
    client.pipe(server);
    server.on("data", (chunk: Buffer) => {
      if (!client.write(chunk.subarray(0, left))) server.pause();
      left -= chunk.length;
      if (left <= 0) client.end(() => client.destroy());
    });
    client.on("drain", () => server.resume());
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      one.on("error", () => {});
      one.on("close", () => other.destroy());
    }
  });
  relay.listen(0, "127.0.0.1");
  await once(relay, "listening");
  onTestFinished(() => void relay.close());
  return {
    origin: `http://127.0.0.1:${(relay.address() as AddressInfo).port}`,
    count: () => connections,
  };
}

afterEach(() => vi.unstubAllEnvs());

describe.each(Object.entries(services))("a large object of %s", (_name, start) => {
  test("is read into lent memory through all wrappers, byte by byte", async () => {
    const backend = (await start()).open();
    const { body } = await protect(backend).open("large");
    const { sha256, lent } = await pumpSlowly(body);
    expect(sha256).toBe(sha(content));
    expect(lent).toBeGreaterThan(content.length / 2);
    await backend.close?.();
  });

  test("is other bytes to the negative control, which returns memory before it has used it", async () => {
    const backend = (await start()).open();
    const { sha256 } = await pumpSlowly((await backend.open("large")).body, false);
    expect(sha256).not.toBe(sha(content));
    await backend.close?.();
  });

  test("leaves no connection behind: read, aborted, cancelled or given up by its reader", async () => {
    const backend = (await start()).open();
    // what the plugin keeps for the next call
    await backend.describe("large");
    const before = countSockets();
    await pumpSlowly((await backend.open("large")).body);
    const abort = new AbortController();
    const reason = new Error("enough");
    const aborted = await backend.open("large", { signal: abort.signal });
    const pumping = flowOf(aborted.body).pump((_chunk, release) => {
      if (release) abort.abort(reason);
      release?.();
    }, lending);
    await expect(pumping).rejects.toBe(reason);
    const flow = flowOf((await backend.open("large")).body);
    const cancelling = flow.pump((_chunk, release) => {
      if (release) flow.cancel();
      release?.();
    }, lending);
    await expect(cancelling).rejects.toMatchObject({ code: "interrupted" });
    const thrown = flowOf((await backend.open("large")).body).pump((_chunk, release) => {
      if (release) throw reason;
    }, lending);
    await expect(thrown).rejects.toBe(reason);
    await expect.poll(countSockets).toBeLessThanOrEqual(before);
    await backend.close?.();
  });

  test("is lent to none that reads it as a stream, and a small one to none at all", async () => {
    const backend = (await start()).open();
    const hash = createHash("sha256");
    for await (const chunk of (await backend.open("large")).body) hash.update(chunk);
    expect(hash.digest("hex")).toBe(sha(content));
    const small = await pumpSlowly((await backend.open("small")).body);
    expect(small).toEqual({ sha256: sha(content.subarray(0, mib)), lent: 0 });
    await backend.close?.();
  });
});

// the download hosts of Graph have origins of their own, which its kit breaks
test.each(["S3", "Azure Blob"])(
  "a large object of %s goes on where its connection broke, and small ones share a connection",
  async (name) => {
    const service = await services[name]!();
    const relay = await startRelay(service.origin, [3 * mib, 2 * mib]);
    const backend = service.open(relay.origin);
    const { sha256, lent } = await pumpSlowly((await protect(backend).open("large")).body);
    expect(sha256).toBe(sha(content));
    expect(lent).toBeGreaterThan(0);
    const connections = relay.count();
    for (let read = 0; read < 3; read++) await pumpSlowly((await backend.open("small")).body);
    expect(relay.count() - connections).toBeLessThanOrEqual(1);
    await backend.close?.();
  },
);

test("requests to Azure go through the proxy of the environment, as the SDK sends them", async () => {
  const service = await services["Azure Blob"]!();
  const passed: string[] = [];
  const proxy = createHttpServer((req, res) => {
    passed.push(req.url ?? "");
    const { method, headers } = req;
    const onward = forward(req.url ?? "", { method, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(res);
    });
    req.pipe(onward);
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  onTestFinished(() => void proxy.close());
  vi.stubEnv("HTTP_PROXY", `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  vi.stubEnv("NO_PROXY", "");
  const backend = service.open();
  const { sha256, lent } = await pumpSlowly((await backend.open("large")).body);
  expect([sha256, lent]).toEqual([sha(content), 0]);
  expect(passed).toEqual([`${service.origin}/account/docs/large`]);
  await backend.close?.();
});
