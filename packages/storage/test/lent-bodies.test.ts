import { createHash } from "node:crypto";
import { SluiceError, type ByteFlow } from "@sluice/core";
import { createFlowBody, flowOf } from "@sluice/core/internal";
import { expect, test } from "vitest";
import { protect, type StorageBackend } from "../src/index.ts";
import { withResumedReads, withValidation } from "../src/internal.ts";
import { holdLastChunk } from "../src/plugin.ts";
import { createManualClock } from "./manual-clock.ts";

const content = "0123456789abcdef";
const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex");

interface Script {
  /** The chunks, by opening. Default: the content in chunks of four bytes. */
  readonly comes?: (opening: number, start: number) => string;
  /** The error that ends the flow of an opening. */
  readonly breaks?: (opening: number) => Error | undefined;
  readonly etag?: (opening: number) => string;
  readonly sha256?: string;
  /** Awaited before each chunk. */
  readonly before?: () => Promise<void>;
}

/** Storage that lends its chunks where a reader asks for that. */
function lendingStorage({ comes, breaks, etag, sha256, before }: Script = {}) {
  const noted = { openings: 0, lendings: [] as boolean[], cancelled: 0 };
  const backend: StorageBackend = {
    name: "lending",
    describe: () => Promise.reject(new SluiceError("unsupported", "lending: no")),
    list: () => Promise.reject(new SluiceError("unsupported", "lending: no")),
    async open(key, { range } = {}) {
      const opening = ++noted.openings;
      const { start = 0 } = range ?? {};
      const bytes = comes?.(opening, start) ?? content.slice(start);
      let isCancelled = false;
      const flow: ByteFlow = {
        async pump(write, lending) {
          noted.lendings.push(lending !== undefined);
          for (let at = 0; at < bytes.length; at += 4) {
            await before?.();
            if (isCancelled) throw new SluiceError("interrupted", "lending: cancelled");
            const chunk = new TextEncoder().encode(bytes.slice(at, at + 4));
            await write(chunk, lending && (() => {}));
          }
          const fault = breaks?.(opening);
          if (fault) throw fault;
        },
        cancel() {
          isCancelled = true;
          noted.cancelled += 1;
        },
      };
      const info = { key, size: content.length, etag: etag?.(opening) ?? "v1" };
      return {
        info: { ...info, ...(sha256 !== undefined && { digests: { sha256 } }) },
        ...(range && { range: { start, end: range.end ?? content.length } }),
        body: createFlowBody(flow),
      };
    },
  };
  return { backend, noted };
}

const memory = { blocks: 2, blockBytes: 4 };
const broken = (): SluiceError => new SluiceError("interrupted", "lending: broke");

async function pump(backend: StorageBackend): Promise<string> {
  const { body } = await backend.open("a");
  let text = "";
  try {
    await flowOf(body).pump((chunk, release) => {
      text += new TextDecoder().decode(chunk);
      release?.();
    }, memory);
    return text;
  } catch (error) {
    throw Object.assign(error as Error, { text });
  }
}

test("lent chunks pass all wrappers, and memory is asked for once", async () => {
  const { backend, noted } = lendingStorage({ sha256: digestOf(content) });
  expect(await pump(protect(backend))).toBe(content);
  expect(noted).toEqual({ openings: 1, lendings: [true], cancelled: 0 });
});

test("each wrapper that holds a chunk asks for a block more", async () => {
  const blocks: (number | undefined)[] = [];
  const flow: ByteFlow = {
    async pump(_write, lending) {
      blocks.push(lending?.blocks);
    },
    cancel() {},
  };
  const held = (body: ReadableStream<Uint8Array>) => holdLastChunk(body, async () => {});
  await flowOf(held(held(createFlowBody(flow)))).pump(() => {}, memory);
  await flowOf(held(createFlowBody(flow))).pump(() => {});
  expect(blocks).toEqual([memory.blocks + 2, undefined]);
});

test("a lent body with another digest never gives its last chunk", async () => {
  const { backend } = lendingStorage({ sha256: digestOf("other") });
  const text = content.slice(0, 12);
  await expect(pump(protect(backend))).rejects.toMatchObject({ code: "corrupt", text });
});

test("a lent body that is too short is interrupted, one that is too long corrupt and never whole", async () => {
  const short = lendingStorage({ comes: () => content.slice(0, 9) });
  await expect(pump(withValidation(short.backend))).rejects.toMatchObject({ code: "interrupted" });
  const long = lendingStorage({ comes: () => `${content}more` });
  const text = content.slice(0, 12);
  await expect(pump(withValidation(long.backend))).rejects.toMatchObject({ code: "corrupt", text });
  expect(long.noted.cancelled).toBeGreaterThan(0);
});

test("a lent body that broke resumes where it stopped, without the memory that may still be lent", async () => {
  const { backend, noted } = lendingStorage({
    comes: (opening, start) => content.slice(start, opening === 1 ? 8 : undefined),
    breaks: (opening) => (opening === 1 ? broken() : undefined),
  });
  expect(await pump(protect(backend))).toBe(content);
  expect(noted).toMatchObject({ openings: 2, lendings: [true, false] });
});

test("a lent body is never spliced of two versions", async () => {
  const { backend } = lendingStorage({
    comes: (_opening, start) => content.slice(start, 8),
    breaks: () => broken(),
    etag: (opening) => `v${opening}`,
  });
  const text = content.slice(0, 8);
  const fault = { code: "precondition_failed", text };
  await expect(pump(withResumedReads(backend))).rejects.toMatchObject(fault);
});

test("an error of the reader ends a lent body, and does not open it again", async () => {
  const { backend, noted } = lendingStorage();
  const { body } = await protect(backend).open("a");
  const fault = broken();
  const pumping = flowOf(body).pump(() => {
    throw fault;
  }, memory);
  await expect(pumping).rejects.toBe(fault);
  expect(noted.openings).toBe(1);
});

test("a lent body that is cancelled is not opened again", async () => {
  const { backend, noted } = lendingStorage();
  const { body } = await protect(backend).open("a");
  const flow = flowOf(body);
  await expect(flow.pump(() => flow.cancel(), memory)).rejects.toBeInstanceOf(SluiceError);
  expect(noted.openings).toBe(1);
});

test("a chunk that does not come in time is timeout, and the source is cancelled", async () => {
  const clock = createManualClock();
  const { backend, noted } = lendingStorage({ before: () => new Promise(() => {}) });
  const { body } = await withValidation(backend, { clock, idleMs: 1_000 }).open("a");
  const pumping = flowOf(body)
    .pump(() => {}, memory)
    .catch((error: unknown) => error);
  await clock.advance(1_000);
  expect(await pumping).toMatchObject({ code: "timeout" });
  expect(noted.cancelled).toBe(1);
});

test("the time for a chunk stands still while its reader wants no more", async () => {
  const clock = createManualClock();
  const { backend } = lendingStorage();
  const { body } = await withValidation(backend, { clock, idleMs: 1_000 }).open("a");
  let goOn = (): void => {};
  let chunks = 0;
  const pumping = flowOf(body).pump(() => {
    if (chunks++ > 0) return undefined;
    return new Promise((resolve) => (goOn = resolve));
  }, memory);
  await clock.advance(5_000);
  goOn();
  await pumping;
  expect(chunks).toBe(4);
});

test("an abort ends a lent body at once with its reason, whatever the source does", async () => {
  const { backend, noted } = lendingStorage({ before: () => new Promise(() => {}) });
  const abort = new AbortController();
  const { body } = await withValidation(backend).open("a", { signal: abort.signal });
  const pumping = flowOf(body).pump(() => {}, memory);
  const reason = new Error("enough");
  abort.abort(reason);
  await expect(pumping).rejects.toBe(reason);
  expect(noted.cancelled).toBe(1);
});

test("the last chunk of a lent body waits until the object was looked at", async () => {
  const { backend } = lendingStorage();
  const { body } = await backend.open("a");
  let text = "";
  const fault = new SluiceError("precondition_failed", "it changed");
  const pumping = flowOf(holdLastChunk(body, () => Promise.reject(fault))).pump((chunk) => {
    text += new TextDecoder().decode(chunk);
  }, memory);
  await expect(pumping).rejects.toBe(fault);
  expect(text).toBe(content.slice(0, 12));
});
