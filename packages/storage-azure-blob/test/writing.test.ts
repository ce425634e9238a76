import type { ContainerClient } from "@azure/storage-blob";
import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { sharedAzurite, startMs } from "./azurite.ts";
import { refuse } from "./http-service.ts";
import { drain, startScriptedService } from "./scripted-service.ts";

const blockBytes = 8 * 1024 * 1024;

let container: ContainerClient;
beforeAll(async () => {
  container = await (await sharedAzurite()).createContainer();
}, startMs);
afterAll(async () => {
  await container.delete();
});

const open = (client = container) => createAzureBlobBackend({ client, writable: true });

async function uncommittedIds(name: string): Promise<Buffer[]> {
  const { uncommittedBlocks = [] } = await container
    .getBlockBlobClient(name)
    .getBlockList("uncommitted");
  return uncommittedBlocks.map((block) => Buffer.from(block.name, "base64"));
}

describe("blocks", () => {
  test("ids have one length, that of the SDK, and are not those of another writer", async () => {
    const writers = await Promise.all([1, 2].map(() => open().write("ids.bin")));
    for (const [n, writer] of writers.entries())
      await writer.write(Buffer.alloc((2 - n) * blockBytes + 1));
    await expect.poll(async () => (await uncommittedIds("ids.bin")).length).toBe(3);
    const ids = await uncommittedIds("ids.bin");
    expect(ids.map(({ byteLength }) => byteLength)).toEqual([48, 48, 48]);
    expect(new Set(ids.map((id) => id.toString("base64"))).size).toBe(3);
    for (const writer of writers) await writer.abort();
  });

  test(
    "an aborted write leaves staged blocks for the service to drop, and no visible blob",
    { tags: "slow" },
    async () => {
      const writer = await open().write("aborted.bin");
      await writer.write(Buffer.alloc(blockBytes + 1));
      await expect.poll(async () => (await uncommittedIds("aborted.bin")).length).toBe(1);
      await writer.abort();
      await expect(open().describe("aborted.bin")).rejects.toMatchObject({ code: "not_found" });
      await expect(open().open("aborted.bin")).rejects.toMatchObject({ code: "not_found" });
      expect((await open().list({ prefix: "aborted" })).objects).toEqual([]);
      const next = await open().write("aborted.bin");
      await next.write(Buffer.from("whole"));
      await next.commit();
      expect((await container.getBlobClient("aborted.bin").downloadToBuffer()).toString()).toBe(
        "whole",
      );
    },
  );

  test("leftover blocks whose ids have another length are reported", async () => {
    const blob = container.getBlockBlobClient("leftover.bin");
    await blob.stageBlock(btoa("short"), "x", 1);
    const large = await open().write("leftover.bin");
    await large.write(Buffer.alloc(blockBytes + 1));
    await expect(large.commit()).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringContaining("unfinished blocks") as string,
    });
  });

  test(
    "two writers that resume the same step in the same millisecond never mix their bytes",
    { tags: "slow" },
    async () => {
      const first = await open().writeInSteps!("same-moment.bin");
      await first.suspend();
      using clock = vi.spyOn(Date, "now").mockReturnValue(Date.now());
      const writers = [
        await open().writeInSteps!("same-moment.bin", { id: first.id }),
        await open().writeInSteps!("same-moment.bin", { id: first.id }),
      ] as const;
      clock.mockRestore();
      const contents = [
        Buffer.alloc(blockBytes + 1, "a"),
        Buffer.alloc(blockBytes + 1, "b"),
      ] as const;
      for (const n of [0, 1] as const) await writers[n].write(contents[n]);
      // a block that comes after the first object would be the beginning of another one
      const stagedBlocks = async (): Promise<number | undefined> =>
        (await container.getBlockBlobClient("same-moment.bin").getBlockList("uncommitted"))
          .uncommittedBlocks?.length;
      await expect.poll(stagedBlocks, { timeout: 5_000 }).toBe(2);
      await writers[0].commit();
      await expect(writers[1].commit()).rejects.toMatchObject({ code: "precondition_failed" });
      const made = await container.getBlobClient("same-moment.bin").downloadToBuffer();
      expect(made.equals(contents[0])).toBe(true);
    },
  );

  test("only one of two writers that resume the same step commits", async () => {
    await container.getBlockBlobClient("replaced.bin").upload("before", 6);
    const first = await open().writeInSteps!("replaced.bin");
    const late = await open().writeInSteps!("replaced.bin", { id: first.id });
    await first.write(Buffer.from("first"));
    await first.commit();
    await late.write(Buffer.from("late"));
    await expect(late.commit()).rejects.toMatchObject({ code: "precondition_failed" });
    await late.abort();
    const made = await container.getBlobClient("replaced.bin").downloadToBuffer();
    expect(made.toString()).toBe("first");
  });

  test("two blocks wait in memory: a third waits for the service", async () => {
    const staged: (() => void)[] = [];
    await using service = await startScriptedService(async (request, response) => {
      await drain(request);
      staged.push(() => response.writeHead(201).end());
    });
    const writer = await open(service.container).write("slow.bin");
    await writer.write(Buffer.alloc(2 * blockBytes));
    let isThrough = false;
    const third = writer.write(Buffer.alloc(1)).then(() => (isThrough = true));
    await expect.poll(() => staged.length).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
    expect([isThrough, service.requests.length]).toEqual([false, 1]);
    staged[0]?.();
    await third;
    await writer.abort();
  });

  test(
    "a declared size beyond 50,000 usual blocks makes the blocks larger",
    { tags: "slow" },
    async () => {
      const sizes: number[] = [];
      await using service = await startScriptedService(async (request, response) => {
        sizes.push(await drain(request));
        response.writeHead(201).end();
      });
      const size = 50_000 * (blockBytes + 1000);
      const writer = await open(service.container).write("huge.bin", { size });
      await writer.write(Buffer.alloc(blockBytes + 1001));
      await expect.poll(() => sizes).toEqual([blockBytes + 1000]);
      await writer.abort();
    },
  );
});

describe("requests", () => {
  test("a small object is one request, and a large one a block each and the list", async () => {
    await using service = await startScriptedService(async (request, response) => {
      await drain(request);
      response.writeHead(201, { etag: '"0x1"' }).end();
    });
    const small = await open(service.container).write("small.bin");
    for (let n = 0; n < 100; n++) await small.write(Buffer.alloc(1000));
    await small.commit();
    const large = await open(service.container).write("large.bin");
    await large.write(Buffer.alloc(blockBytes + 1));
    await large.commit();
    const operations = service.requests.map((request) => /comp=\w+|$/.exec(request)?.[0]);
    expect(operations).toEqual(["", "comp=block", "comp=block", "comp=blocklist"]);
  });

  test("a condition is checked first, before any byte is sent", async () => {
    await container.getBlockBlobClient("there.bin").upload("x", 1);
    for (const options of [{ ifAbsent: true }, { ifMatch: "0x0" }])
      await expect(open().write("there.bin", options)).rejects.toMatchObject({
        code: "precondition_failed",
      });
  });
});

describe("commit", () => {
  test.each([1000, blockBytes + 1000])(
    "%i bytes have the type and the MD5 that were computed on the way",
    async (size) => {
      const writer = await open().write("typed.bin", { contentType: "text/csv", size });
      await writer.write(Buffer.alloc(size, 1));
      const info = await writer.commit();
      const described = await open().describe("typed.bin");
      expect(described.contentType).toBe("text/csv");
      expect(described.digests?.md5).toMatch(/^[0-9a-f]{32}$/);
      expect(described.digests).toEqual(info.digests);
      // a whole read has it in another header than a description
      const { info: opened, body } = await open().open("typed.bin");
      await body.cancel();
      expect(opened.digests).toEqual(info.digests);
    },
  );

  test.each([
    ["ifAbsent", { ifAbsent: true }, 409, "BlobAlreadyExists"],
    ["ifMatch", { ifMatch: "0x1" }, 412, "ConditionNotMet"],
    ["ifMatch of a removed blob", { ifMatch: "0x1" }, 404, "BlobNotFound"],
    ["the blocks were dropped by another writer", {}, 400, "InvalidBlockList"],
  ])("lost to another writer is precondition_failed: %s", async (_, options, status, code) => {
    await using service = await startScriptedService(async (request, response) => {
      await drain(request);
      if (request.method !== "HEAD") return refuse(request, response, status, code);
      if ("ifMatch" in options) return void response.writeHead(200, { etag: '"0x1"' }).end();
      refuse(request, response, 404, "BlobNotFound");
    });
    const writer = await open(service.container).write("raced.bin", options);
    await writer.write(Buffer.from("x"));
    await expect(writer.commit()).rejects.toMatchObject({ code: "precondition_failed" });
  });

  test("a blob with a lease of another client is unsupported, not taken for a changed one", async () => {
    const blob = container.getBlockBlobClient("leased.bin");
    await blob.upload("x", 1);
    const lease = blob.getBlobLeaseClient();
    await lease.acquireLease(-1);
    onTestFinished(async () => void (await lease.releaseLease()));
    const writer = await open().write("leased.bin");
    await writer.write(Buffer.from("y"));
    const error = await writer.commit().catch((fault: unknown) => fault);
    expect(error).toMatchObject({
      code: "unsupported",
      message: expect.stringContaining("another client has a lease on the blob"),
    });
  });

  test("conditions go with the request that makes the blob visible", { tags: "slow" }, async () => {
    const conditions: unknown[] = [];
    await using service = await startScriptedService(async (request, response) => {
      await drain(request);
      if (request.method === "HEAD") return refuse(request, response, 404, "BlobNotFound");
      conditions.push(request.headers["if-none-match"]);
      response.writeHead(201, { etag: '"0x1"' }).end();
    });
    for (const size of [1, blockBytes + 1]) {
      const writer = await open(service.container).write("new.bin", { ifAbsent: true });
      await writer.write(Buffer.alloc(size));
      await writer.commit();
    }
    expect(conditions).toEqual(["*", undefined, undefined, "*"]);
  });

  test("an abort during commit rejects at once with the reason", async () => {
    await using service = await startScriptedService(() => {});
    const caller = new AbortController();
    const reason = new Error("the caller's reason");
    const writer = await open(service.container).write("stuck.bin", { signal: caller.signal });
    await writer.write(Buffer.from("x"));
    const committing = writer.commit();
    await expect.poll(() => service.countOpen()).toBe(1);
    caller.abort(reason);
    await expect(committing).rejects.toBe(reason);
    await expect.poll(() => service.countOpen()).toBe(0);
  });

  test("a commit of too few bytes ends the block that is on its way", async () => {
    await using service = await startScriptedService(async (request) => {
      await drain(request);
    });
    const size = 3 * blockBytes;
    const writer = await open(service.container).write("short.bin", { size });
    await writer.write(Buffer.alloc(blockBytes + 1));
    await expect.poll(() => service.countOpen()).toBe(1);
    await expect(writer.commit()).rejects.toMatchObject({ code: "invalid_argument" });
    await expect.poll(() => service.countOpen()).toBe(0);
  });

  test("a block that fails is reported at the next step, and the writer is finished", async () => {
    await using service = await startScriptedService(async (request, response) => {
      await drain(request);
      refuse(request, response, 503, "ServerBusy", { "retry-after": "3" });
    });
    const writer = await open(service.container).write("failing.bin");
    await writer.write(Buffer.alloc(blockBytes + 1));
    await expect(writer.commit()).rejects.toMatchObject({ code: "throttled", retryAfterMs: 3000 });
    await expect(writer.write(Buffer.from("x"))).rejects.toThrow(TypeError);
    expect(service.requests).toHaveLength(1);
  });
});
