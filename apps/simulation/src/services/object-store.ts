import type { ByteRange } from "@sluice/core";
import type {
  ChangeBatch,
  MemoryBackend,
  ObjectWriter,
  OpenedObject,
  StepEnd,
  StepWriter,
  WatchOptions,
  WritableBackend,
} from "@sluice/storage";
import type { Life, Machine } from "../process/machine.ts";
import type { Product } from "../process/product-code.ts";
import type { Faults } from "../world/faults.ts";
import type { Random } from "../world/random.ts";
import { epochMs, type World } from "../world/world.ts";
import type { Server } from "./network.ts";

/** How a storage writes objects in several requests: any bytes, whole blocks of 4,096 bytes as S3 its parts, or not at all. */
export type Steps = "bytes" | "blocks" | "none";

/** Where presigned URLs lead. */
export const bucketOrigin = "https://bucket.sim";

/** A storage service: the memory backend of the product in a process of its own, and the network to it. */
export class ObjectStore {
  readonly objects: MemoryBackend;
  readonly #world: World;
  readonly #faults: Faults;
  readonly #life: Life;
  readonly #random: Random;
  readonly #isPresigning: boolean;
  /** Bodies and writers that processes that run have open. */
  readonly #open: Map<object, Life> = new Map();
  readonly #writers: WeakSet<object> = new WeakSet();
  /** Machines that the network has cut off from it. */
  readonly cutOff: Set<string> = new Set();
  slownessMs = 4;
  steps: Steps = "bytes";
  /** Nothing more fits. */
  isFull = false;
  /** It tells of changes. */
  canWatch = true;

  constructor(
    world: World,
    faults: Faults,
    machine: Machine,
    { name, isPresigning }: { readonly name: string; readonly isPresigning: boolean },
  ) {
    this.#world = world;
    this.#faults = faults;
    this.#life = machine.life ?? machine.boot();
    this.#random = world.random(`storage ${name}`);
    this.#isPresigning = isPresigning;
    this.objects = this.#life.product.createMemoryBackend();
  }

  /** Bodies and writers that are open. */
  openCount(): number {
    return [...this.#open.values()].filter((life) => !life.isOver).length;
  }

  /** Writers that are open. */
  openWriters(): number {
    return [...this.#open].filter(([key, life]) => this.#writers.has(key) && !life.isOver).length;
  }

  /** A backend of it for a process, as the product takes one. */
  backendFor(life: Life): WritableBackend {
    const { objects } = this;
    const call = <T>(
      name: string,
      signal: AbortSignal | undefined,
      work: () => Promise<T>,
    ): Promise<T> => this.#call(life, name, signal, work);
    return {
      name: "sim",
      describe: (key, { signal } = {}) =>
        call(`describe ${key}`, signal, () => objects.describe(key)),
      open: async (key, { signal, ...options } = {}) => {
        const opened = await call(`open ${key}`, signal, () => objects.open(key, options));
        return { ...opened, body: this.#bodyFor(life, opened) };
      },
      list: ({ signal, ...options } = {}) => call("list", signal, () => objects.list(options)),
      remove: (key, { signal } = {}) => call(`remove ${key}`, signal, () => objects.remove(key)),
      ...(this.canWatch && { watch: (options) => this.#watch(life, options) }),
      write: async (key, { signal, repeat: _once, ...options } = {}) =>
        this.#writerFor(
          life,
          signal,
          await call(`write ${key}`, signal, () => objects.write(key, options)),
        ),
      ...(this.steps !== "none" && {
        writeInSteps: async (key, { signal, repeat: _once, ...options } = {}) => {
          const open = (): Promise<StepWriter> => objects.writeInSteps(key, options);
          const opened = await call(`step ${key}`, signal, open);
          const writer = this.steps === "blocks" ? inBlocks(opened) : opened;
          const { id, offset } = writer;
          const suspend = (): Promise<StepEnd> =>
            call("suspend", signal, () => writer.suspend()).finally(() =>
              this.#open.delete(writer),
            );
          return { ...this.#writerFor(life, signal, writer), id, offset, suspend };
        },
      }),
      ...(this.#isPresigning && {
        presign: (key, { signal, expiresInMs, contentType, contentDisposition }) =>
          call(`presign ${key}`, signal, async () => {
            await objects.describe(key);
            const expiresAt = epochMs + this.#world.now + expiresInMs;
            const url = new URL(`${bucketOrigin}/${key}?expires=${expiresAt}`);
            if (contentType) url.searchParams.set("type", contentType);
            if (contentDisposition) url.searchParams.set("disposition", contentDisposition);
            return { url: url.href, expiresAt };
          }),
      }),
    };
  }

  /** The HTTP side, for presigned URLs. */
  server(): Server {
    return { name: "bucket", answer: (request) => this.#answer(request) };
  }

  /** Sends a request to the service; it may be lost, refused, or carried out without a response. */
  #call<T>(
    life: Life,
    name: string,
    signal: AbortSignal | undefined,
    work: () => Promise<T>,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const abort = (): void => reject(signal?.reason as Error);
      signal?.addEventListener("abort", abort);
      const later = (happen: () => void): void =>
        void this.#world.after(this.#random.next() * this.slownessMs, happen, life);
      const end = (settle: () => void): void =>
        later(() => {
          signal?.removeEventListener("abort", abort);
          settle();
        });
      const fail = (): void => end(() => reject(unavailable(life.product, name)));
      later(() => {
        if (signal?.aborted) return undefined;
        if (this.cutOff.has(life.machine.name) && !this.#faults.isCalm) return fail();
        if (this.#faults.strike("storage refuses", life.name)) return fail();
        this.#life.enter();
        work().then(
          (result) => {
            if (life.isOver) return undefined;
            this.#world.log(`${life.name} ${name}`);
            if (this.#faults.strike("storage reply lost", life.name)) return fail();
            return end(() => resolve(result));
          },
          (error: { code?: string; message: string }) => {
            this.#world.log(`${life.name} ${name}: ${error.code}`);
            end(() => reject(ownError(life.product, error)));
          },
        );
        return undefined;
      });
      return undefined;
    });
  }

  #bodyFor(life: Life, { info, range, body }: OpenedObject): ReadableStream<Uint8Array> {
    const key = {};
    this.#open.set(key, life);
    const size = range ? rangeLength(range) : (info.size ?? 0);
    const broken = this.#faults.strike("storage body breaks", life.name);
    const short = broken ? undefined : this.#faults.strike("storage body short", life.name);
    const endAt = (broken ?? short)?.int(0, Math.max(0, size - 1)) ?? Infinity;
    const reader = body.getReader();
    const shut = (): void => {
      this.#open.delete(key);
      reader.cancel().catch(() => {});
    };
    let rest = new Uint8Array();
    let sent = 0;
    return new ReadableStream(
      {
        pull: async (controller) => {
          await this.#world.sleep(this.#random.next() * this.slownessMs, life);
          while (rest.length === 0) {
            const step = await reader.read();
            if (step.done) break;
            rest = step.value as Uint8Array<ArrayBuffer>;
          }
          const bytes = Math.min(rest.length, endAt - sent, this.#random.pick(pieceSizes));
          if (bytes > 0) {
            controller.enqueue(new Uint8Array(rest.subarray(0, bytes)));
            rest = rest.subarray(bytes);
            sent += bytes;
            return;
          }
          shut();
          if (broken)
            throw new life.product.SluiceError("interrupted", "sim: the storage connection broke");
          controller.close();
        },
        cancel: shut,
      },
      { highWaterMark: 0 },
    );
  }

  /** Tells a process of changes, until it stops or the connection breaks. */
  async *#watch(life: Life, { signal, ...options }: WatchOptions): AsyncGenerator<ChangeBatch> {
    const key = {};
    this.#open.set(key, life);
    const ended = new AbortController();
    const broken = this.#faults.strike("storage watch breaks", life.name);
    const breakAt = broken && this.#world.after(broken.int(0, 60_000), () => ended.abort());
    try {
      const both = AbortSignal.any([signal, ended.signal]);
      for await (const batch of this.objects.watch({ ...options, signal: both })) {
        await this.#world.sleep(this.#random.next() * this.slownessMs, life);
        yield batch;
      }
      if (!signal.aborted) throw unavailable(life.product, "watch");
    } finally {
      breakAt?.();
      this.#open.delete(key);
    }
  }

  #writerFor(
    life: Life,
    signal: AbortSignal | undefined,
    writer: ObjectWriter | StepWriter,
  ): ObjectWriter {
    this.#open.set(writer, life);
    this.#writers.add(writer);
    const shut = (): void => void this.#open.delete(writer);
    signal?.addEventListener("abort", shut);
    const call = <T>(
      name: string,
      from: AbortSignal | undefined,
      work: () => Promise<T>,
    ): Promise<T> => this.#call(life, name, from, work);
    const abort = (): Promise<void> => call("abort", undefined, () => writer.abort()).finally(shut);
    return {
      write: (chunk) => {
        const bytes = new Uint8Array(chunk);
        return call("write", signal, async () => {
          if (this.isFull && !this.#faults.isCalm)
            throw Object.assign(new Error("sim: no room"), { code: "no_space" });
          await writer.write(bytes);
        });
      },
      commit: () => call("commit", signal, () => writer.commit()).finally(shut),
      abort,
      [Symbol.asyncDispose]: abort,
    };
  }

  /** Answers a request with a presigned URL as S3 does. */
  async #answer(request: Request): Promise<Response> {
    const url = new URL(request.url);
    if (epochMs + this.#world.now > Number(url.searchParams.get("expires")))
      return new Response(null, { status: 403 });
    const key = url.pathname.slice(1);
    this.#life.enter();
    const info = await this.objects.describe(key).catch(() => undefined);
    if (!info) return new Response(null, { status: 404 });
    const etag = `"${info.etag}"`;
    const { headers } = request;
    const ifMatch = headers.get("if-match");
    if (ifMatch !== null && ifMatch !== etag) return new Response(null, { status: 412 });
    const range = rangeOf(headers.get("range"), headers.get("if-range") ?? etag, etag);
    const size = info.size ?? 0;
    if (range && range.start >= size)
      return new Response(null, { status: 416, headers: { "content-range": `bytes */${size}` } });
    const opened = await this.objects.open(key, range ? { range } : {});
    const part = opened.range;
    const type = url.searchParams.get("type");
    const disposition = url.searchParams.get("disposition");
    return new Response(opened.body, {
      status: part ? 206 : 200,
      headers: {
        "content-length": String(part ? rangeLength(part) : size),
        etag,
        "accept-ranges": "bytes",
        ...(type !== null && { "content-type": type }),
        ...(disposition !== null && { "content-disposition": disposition }),
        ...(part && { "content-range": `bytes ${part.start}-${part.end - 1}/${size}` }),
      },
    });
  }
}

/** A writer that keeps whole blocks only, and gives the rest back. */
function inBlocks(writer: StepWriter): StepWriter {
  let tail = Buffer.alloc(0);
  const write = async (chunk: Uint8Array): Promise<void> => {
    const bytes = Buffer.concat([tail, chunk]);
    const whole = bytes.length - (bytes.length % blockBytes);
    tail = bytes.subarray(whole);
    if (whole > 0) await writer.write(bytes.subarray(0, whole));
  };
  return {
    id: writer.id,
    offset: writer.offset,
    write,
    suspend: async () => ({ ...(await writer.suspend()), rest: new Uint8Array(tail) }),
    async commit() {
      if (tail.length > 0) await writer.write(tail);
      return writer.commit();
    },
    abort: () => writer.abort(),
  };
}

const blockBytes = 4_096;

const pieceSizes = [1, 100, 1_000, 10_000, 60_000, 262_144] as const;

function rangeLength({ start, end }: Required<ByteRange>): number {
  return end - start;
}

/** The one range that is asked for, of the version that is there. */
function rangeOf(header: string | null, ifRange: string, etag: string): ByteRange | undefined {
  const [, start, last] = /^bytes=(\d+)-(\d*)$/.exec(header ?? "") ?? [];
  if (start === undefined || ifRange !== etag) return undefined;
  return { start: Number(start), ...(last && { end: Number(last) + 1 }) };
}

function unavailable({ SluiceError }: Product, name: string): Error {
  return new SluiceError("unavailable", `sim: ${name} failed`, { retryAfterMs: 1_000 });
}

/** An error of the service's process as one of another process: classes are of one process. */
function ownError({ SluiceError }: Product, error: { code?: string; message: string }): Error {
  type Code = ConstructorParameters<typeof SluiceError>[0];
  return error.code === undefined
    ? (error as Error)
    : new SluiceError(error.code as Code, error.message);
}
