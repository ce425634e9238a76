import { gunzipSync } from "node:zlib";
import type { Overrides, StepWriter } from "@sluice/storage";
import { createBody } from "@sluice/storage/plugin";
import { describes, mapBytes, opens, shortens, writes } from "./mutant.ts";
import { mapSteps, mapWritten, peek, type PromiseMutants } from "./promise-mutants.ts";

const kib = 1024;
const mib = 1024 * kib;

/** Loses the first byte of some ranges. */
function losesFirst(isThis: (start: number, end: number, size: number) => boolean): Overrides {
  return opens((opened) => {
    const { info, range } = opened;
    const isShort = range !== undefined && isThis(range.start, range.end, info.size ?? 0);
    return isShort ? mapBytes(opened, (bytes) => bytes.subarray(1)) : opened;
  });
}

/** Changes whole objects of some sizes as they are read. */
function reads(
  isThis: (size: number) => boolean,
  change: (bytes: Uint8Array) => Uint8Array,
): Overrides {
  return opens((opened) =>
    !opened.range && isThis(opened.info.size ?? 0) && (opened.info.size ?? 0) <= 64 * mib
      ? mapBytes(opened, change)
      : opened,
  );
}

/** Changes all bytes of a small object that is stored without a type, and comes whole. */
function changes(change: (bytes: Uint8Array) => Uint8Array): Overrides {
  return opens((opened) => {
    const { contentType, size = 0 } = opened.info;
    return opened.range || contentType !== undefined || size > mib
      ? opened
      : mapBytes(opened, (bytes) => (bytes.byteLength === size ? change(bytes) : bytes));
  });
}

/** The bytes up to the last one that is not `byte`. */
function trimmed(bytes: Uint8Array, byte: number): Uint8Array {
  let end = bytes.byteLength;
  while (end > 0 && bytes[end - 1] === byte) end--;
  return bytes.subarray(0, end);
}

export const sizeMutants: PromiseMutants = {
  "The range delivered, resolved; absent for a whole object": {
    "range-aligned": {
      "loses the last byte of a range that ends at a multiple of 256 KiB": () =>
        shortens((start, end, size) => end % (256 * kib) === 0 && end < size && start < end),
      "loses the first byte of a range that begins at a multiple of 256 KiB": () =>
        losesFirst((start) => start > 0 && start % (256 * kib) === 0),
      "loses the first byte of a range that begins one byte before a multiple of 64 KiB": () =>
        losesFirst((start, end) => (start + 1) % (64 * kib) === 0 && end > start + 1),
      "loses the last byte of a range that ends one byte behind a multiple of 64 KiB": () =>
        shortens((_, end) => end > 1 && end % (64 * kib) === 1),
      "loses the last byte of a range from one multiple of 64 KiB to the next": () =>
        shortens((start, end) => start % (64 * kib) === 0 && end === start + 64 * kib),
      "loses the end of a range from a multiple of 64 KiB to the end of the object": () =>
        shortens((start, end, size) => start > 0 && start % (64 * kib) === 0 && end === size),
      "gives the byte before, where one byte at a multiple of 64 KiB is asked for": () => ({
        open: (open) => async (key, options) => {
          const { start = 0, end = 0 } = options?.range ?? {};
          if (start === 0 || start % (64 * kib) > 0 || end !== start + 1) return open(key, options);
          const opened = await open(key, { ...options, range: { start: start - 1, end: start } });
          return { ...opened, range: { start, end } };
        },
      }),
    },
    "range-whole": {
      "takes a range from 0 without an end for no range": (service) => ({
        open:
          (open) =>
          async (key, options = {}) => {
            const { range, ...rest } = options;
            const isWhole = range?.start === 0 && range.end === undefined;
            return open(key, isWhole && (await peek(service, key))?.info.size ? rest : options);
          },
      }),
    },
    "range-beyond": {
      "gives no bytes where a range of none at the end is asked for": () => ({
        open: (open) => async (key, options) =>
          open(key, options).catch(async (error: { code?: string; size?: number }) => {
            const { range } = options ?? {};
            if (range === undefined || range.start !== range.end || error.size !== range.start)
              throw error;
            const opened = await open(key);
            await opened.body.cancel();
            const body = createBody({ next: async () => undefined });
            return { info: opened.info, range: { start: range.start, end: range.start }, body };
          }),
      }),
    },
    "range-large": {
      "has signed offsets up to 2^32": () => ({
        open:
          (open) =>
          async (key, options = {}) => {
            const { start = 0 } = options.range ?? {};
            const isNegative = start < 2 ** 32 && Math.trunc(start) === start && (start | 0) < 0;
            return open(
              key,
              isNegative && start > 0 ? { ...options, range: { start: 0, end: 1 } } : options,
            );
          },
      }),
    },
    "range-every": {
      "loses the last byte of a range in an object that is not larger than 16 bytes": () =>
        shortens((start, end, size) => size <= 16 && end === size && end - start < size),
    },
  },
  "Opens one object once": {
    "open-chunks": {
      "loses the last 64 KiB of an object of 512 KiB": () =>
        reads(
          (size) => size === 512 * kib,
          (bytes) => bytes.subarray(0, -64 * kib),
        ),
      "loses the last byte of an object of one page of 4 KiB": () =>
        reads(
          (size) => size === 4 * kib,
          (bytes) => bytes.subarray(0, -1),
        ),
      "loses the last byte of an object of 64 KiB": () =>
        reads(
          (size) => size === 64 * kib,
          (bytes) => bytes.subarray(0, -1),
        ),
      "loses the last byte of an object that is a multiple of 1 MiB": () =>
        reads(
          (size) => size > 0 && size < 3 * mib && size % mib === 0,
          (bytes) => bytes.subarray(0, -1),
        ),
      "loses the last byte of an object that is one byte short of 1 MiB": () =>
        reads(
          (size) => size === mib - 1,
          (bytes) => bytes.subarray(0, -1),
        ),
    },
    "describe-large": {
      "tells sizes between 2^31 and 2^32 as negative numbers": () =>
        describes((info) => {
          const { size = 0 } = info;
          return size < 2 ** 32 ? { ...info, size: size | 0 } : info;
        }),
      "takes 2^32 bytes for none": () =>
        describes((info) => (info.size === 2 ** 32 ? { ...info, size: 0 } : info)),
    },
  },
  "Bodies are delivered as stored, never decoded": {
    "open-binary": {
      "cuts zeros off the end of an object": () => changes((bytes) => trimmed(bytes, 0)),
      "cuts line ends off the end of an object": () => changes((bytes) => trimmed(bytes, 10)),
      "unpacks what looks like gzip and has no coding": () =>
        changes((bytes) => (bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes)),
      "leaves out blocks of zeros": () =>
        changes((bytes) => {
          const blocks: Uint8Array[] = [];
          for (let at = 0; at < bytes.byteLength; at += 4 * kib) {
            const block = bytes.subarray(at, at + 4 * kib);
            if (block.byteLength < 4 * kib || block.some((byte) => byte !== 0)) blocks.push(block);
          }
          return Buffer.concat(blocks);
        }),
    },
    "open-types": {
      "ends text at its first NUL": () =>
        opens((opened) =>
          opened.info.contentType === "text/plain" && !opened.info.contentEncoding
            ? mapBytes(opened, (bytes) =>
                bytes.includes(0) ? bytes.subarray(0, bytes.indexOf(0)) : bytes,
              )
            : opened,
        ),
    },
  },
  "Takes the next chunk": {
    "write-sizes": {
      "loses the last piece of a chunk of 512 KiB": () =>
        mapWritten((chunk) =>
          chunk.byteLength === 512 * kib ? chunk.subarray(0, -64 * kib) : chunk,
        ),
      "loses the last byte of a chunk that is a multiple of 64 KiB": () =>
        mapWritten((chunk) =>
          chunk.byteLength > 0 && chunk.byteLength % (64 * kib) === 0
            ? chunk.subarray(0, -1)
            : chunk,
        ),
      "loses the last byte of an object that is exactly one part": () =>
        writes((writer) => {
          let held: Uint8Array | undefined;
          let isEnded = false;
          let written = 0;
          const flush = async (end = held?.byteLength): Promise<void> => {
            const chunk = held;
            held = undefined;
            if (chunk) await writer.write(chunk.subarray(0, end));
          };
          return {
            async write(chunk) {
              if (isEnded) return writer.write(chunk);
              await flush();
              written += chunk.byteLength;
              held = chunk;
            },
            async commit() {
              await flush(written === mib ? -1 : undefined);
              isEnded = true;
              return writer.commit();
            },
          };
        }),
      "writes the memory behind a chunk, not the chunk": () =>
        mapWritten((chunk) => new Uint8Array(chunk.buffer as ArrayBuffer, 0, chunk.byteLength)),
      "takes an empty chunk for the end": () => {
        let isEnded = false;
        return mapWritten((chunk, n) => {
          isEnded = chunk.byteLength === 0 || (isEnded && n > 0);
          return isEnded ? undefined : chunk;
        });
      },
      "loses chunks after the hundredth": () =>
        mapWritten((chunk, n) => (n < 100 ? chunk : undefined)),
      "cuts a chunk at 4 MiB": () => mapWritten((chunk) => chunk.subarray(0, 4 * mib)),
      "cuts zeros off the end of a chunk": () => mapWritten((chunk) => trimmed(chunk, 0)),
      "lets a chunk that has the bytes of the one before out": () => {
        let last: Uint8Array | undefined;
        return mapWritten((chunk, n) => {
          const isSame = n > 0 && last !== undefined && Buffer.compare(last, chunk) === 0;
          last = chunk.slice();
          return isSame ? undefined : chunk;
        });
      },
    },
    "steps-sizes": {
      "loses the last byte of a later step that is exactly one part": () =>
        mapSteps((chunk, { offset }) =>
          offset > 0 && chunk.byteLength === mib ? chunk.subarray(0, -1) : chunk,
        ),
      "forgets what was kept when a step has no bytes": ({ backend }) => ({
        writeInSteps: (writeInSteps) => async (key, options) => {
          const writer = await writeInSteps(key, options);
          let written = 0;
          return {
            ...writer,
            async write(chunk) {
              written += chunk.byteLength;
              await writer.write(chunk);
            },
            async suspend() {
              if (written > 0 || writer.offset === 0 || options?.signal) return writer.suspend();
              const { offset } = writer;
              await writer.abort();
              const anew = await backend.writeInSteps?.(key);
              await anew?.suspend();
              return { offset, rest: new Uint8Array() };
            },
          };
        },
      }),
      "loses all but eight steps of an object": () => {
        const steps = new Map<string, number>();
        return {
          writeInSteps: (writeInSteps) => async (key, options) => {
            const writer = await writeInSteps(key, options);
            const count = (steps.get(writer.id) ?? 0) + 1;
            steps.set(writer.id, count);
            return count <= 8 ? writer : { ...writer, write: async () => {} };
          },
        };
      },
      "ends a step at its first empty chunk": () => {
        const ended = new Set<StepWriter>();
        return mapSteps((chunk, writer) => {
          if (chunk.byteLength === 0) ended.add(writer);
          return ended.has(writer) ? undefined : chunk;
        });
      },
      "writes the memory behind a chunk of a step, not the chunk": () =>
        mapSteps((chunk) => new Uint8Array(chunk.buffer as ArrayBuffer, 0, chunk.byteLength)),
    },
  },
};
