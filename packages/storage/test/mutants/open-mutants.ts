import { gunzipSync } from "node:zlib";
import type { OpenedObject } from "@sluice/storage";
import { createBody } from "@sluice/storage/plugin";
import { mapBytes, type Mutants, opens, shortens } from "./mutant.ts";

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
const largeBytes = 64 * 1024 * 1024;

export const openMutants: Mutants = {
  "open-bytes": {
    flaw: "calls a whole object of 10,000 bytes a range",
    breaks: () =>
      opens((opened) =>
        opened.info.size === 10_000 ? { ...opened, range: { start: 0, end: 10_000 } } : opened,
      ),
  },
  "open-empty": {
    flaw: "gives an empty object as an empty chunk",
    breaks: () =>
      opens((opened) => {
        if (opened.info.size !== 0) return opened;
        const body = new ReadableStream<Uint8Array>({
          start(controller) {
            controller.enqueue(new Uint8Array());
            controller.close();
          },
        });
        return opened.body.cancel().then(() => ({ ...opened, body }));
      }),
  },
  "open-size": {
    flaw: "tells one byte less than there is",
    breaks: () =>
      opens((opened) =>
        opened.range
          ? opened
          : { ...opened, info: { ...opened.info, size: (opened.info.size ?? 0) - 1 } },
      ),
  },
  "open-info": {
    flaw: "gives another etag with the bytes than with the description",
    breaks: () =>
      opens((opened) => ({
        ...opened,
        info: { ...opened.info, etag: `${opened.info.etag}-open` },
      })),
  },
  "open-parallel": {
    flaw: "lets two bodies of one object share a position",
    breaks: () => {
      const live = new Map<string, ReadableStreamDefaultReader<Uint8Array>>();
      return opens((opened, key) => {
        const reader = live.get(key) ?? opened.body.getReader();
        live.set(key, reader);
        const release = async (reason?: unknown): Promise<void> => {
          live.delete(key);
          await reader.cancel(reason);
          if (!opened.body.locked) await opened.body.cancel(reason);
        };
        return {
          ...opened,
          body: createBody({ next: async () => (await reader.read()).value, release }),
        };
      });
    },
  },
  "open-chunks": {
    flaw: "loses the only byte of a chunk of 64 KiB",
    breaks: () =>
      opens((opened) =>
        !opened.range && (opened.info.size ?? 0) > 1 && (opened.info.size ?? 0) % 65_536 === 1
          ? mapBytes(opened, (bytes) => bytes.subarray(0, -1))
          : opened,
      ),
  },
  "open-chunks-owned": {
    flaw: "hands out the bytes that it keeps",
    breaks: () => {
      const kept = new Map<string, Uint8Array>();
      return opens((opened) => {
        const { info, range } = opened;
        if (info.size !== 4000 || range) return opened;
        return mapBytes(opened, (bytes) => {
          const shared = kept.get(info.etag ?? "") ?? bytes;
          kept.set(info.etag ?? "", shared);
          return shared;
        });
      });
    },
  },
  "open-binary": {
    flaw: "turns CRLF into LF in names that end in .txt",
    breaks: () =>
      opens((opened, key) =>
        key.endsWith(".txt")
          ? mapBytes(opened, (bytes) =>
              bytes.filter((byte, n) => byte !== 13 || bytes[n + 1] !== 10),
            )
          : opened,
      ),
  },
  "open-types": {
    flaw: "parses JSON and writes it out again",
    breaks: () =>
      opens((opened) =>
        opened.info.contentType === "application/json"
          ? mapBytes(opened, (bytes) => encode(JSON.stringify(JSON.parse(decode(bytes)))))
          : opened,
      ),
  },
  "open-encoded": {
    flaw: "decodes what is stored as gzip",
    breaks: () =>
      opens((opened) =>
        opened.info.contentEncoding === "gzip"
          ? mapBytes(opened, (bytes) => gunzipSync(bytes))
          : opened,
      ),
  },
  "open-missing": {
    flaw: "tells only the reader that there is nothing in a missing folder",
    breaks: () => ({
      open: (open) => async (key, options) => {
        if (!key.startsWith("no/folder/")) return open(key, options);
        const next = (): Promise<never> => open(key, options) as Promise<never>;
        return { info: { key }, body: createBody({ next }) };
      },
    }),
  },
  "open-folder": {
    flaw: "opens a folder as an empty object",
    breaks: ({ state }) => ({
      open: (open) => async (key, options) =>
        state.folders.has(key)
          ? { info: { key, size: 0 }, body: createBody({ next: async () => undefined }) }
          : open(key, options),
    }),
  },
  "open-back-pressure": {
    flaw: "reads 64 chunks ahead",
    breaks: () =>
      opens((opened): OpenedObject => {
        if ((opened.info.size ?? 0) < largeBytes) return opened;
        const reader = opened.body.getReader();
        const body = new ReadableStream<Uint8Array>(
          {
            async pull(controller) {
              const { done, value } = await reader.read();
              if (done) controller.close();
              else controller.enqueue(value);
            },
            cancel: (reason) => reader.cancel(reason),
          },
          { highWaterMark: 64 },
        );
        return { ...opened, body };
      }),
  },
  "range-first": {
    flaw: "loses the byte of the range [0, 1)",
    breaks: () => shortens((start, end) => start === 0 && end === 1),
  },
  "range-last": {
    flaw: "loses the last byte when only it is requested",
    breaks: () => shortens((start, end, size) => size > 1000 && end === size && start === size - 1),
  },
  "range-middle": {
    flaw: "loses the last byte of a range of 1001 bytes",
    breaks: () => shortens((start, end) => end - start === 1001),
  },
  "range-open-ended": {
    flaw: "takes no end for the last byte but one",
    also: ["open-chunks-owned"],
    breaks: () => ({
      open: (open) => async (key, options) => {
        const opened = await open(key, options);
        return options?.range && options.range.end === undefined
          ? mapBytes(opened, (bytes) => bytes.subarray(0, -1))
          : opened;
      },
    }),
  },
  "range-clamped": {
    flaw: "tells the end that was asked for, not the one that was delivered",
    breaks: () => ({
      open: (open) => async (key, options) => {
        const opened = await open(key, options);
        const end = options?.range?.end;
        const isBeyond = opened.range && end !== undefined && end > opened.range.end + 1000;
        return isBeyond && opened.range ? { ...opened, range: { ...opened.range, end } } : opened;
      },
    }),
  },
  "range-whole": {
    flaw: "tells no range when it is the whole",
    breaks: () =>
      opens(({ range, ...opened }) =>
        range && (range.start > 0 || range.end !== opened.info.size || range.end === 1)
          ? { ...opened, range }
          : opened,
      ),
  },
  "range-beyond": {
    flaw: "does not tell the size with range_not_satisfiable",
    breaks: () => ({
      open: (open) => (key, options) =>
        open(key, options).catch((error: { size?: number }) => {
          if ((error.size ?? 0) > 0) delete error.size;
          throw error;
        }),
    }),
  },
  "range-of-empty": {
    flaw: "finds every range in an empty object",
    breaks: () => ({
      open: (open) => (key, options) =>
        open(key, options).catch((error: { size?: number }) => {
          if (error.size === 0) return open(key);
          throw error;
        }),
    }),
  },
  "range-large": {
    flaw: "keeps offsets in 32 bits",
    breaks: () => ({
      open:
        (open) =>
        async (key, options = {}) => {
          const { start = 0, end = 0 } = options.range ?? {};
          if (start < 2 ** 32 || !Number.isSafeInteger(start)) return open(key, options);
          return open(key, { ...options, range: { start: start >>> 0, end: end >>> 0 } });
        },
    }),
  },
  "range-nothing": {
    flaw: "takes an end that is not beyond the start for a missing one",
    breaks: () => ({
      open:
        (open) =>
        async (key, options = {}) => {
          const { start, end } = options.range ?? {};
          if (start === undefined || start !== end) return open(key, options);
          return open(key, { ...options, range: { start } });
        },
    }),
  },
  "range-chunk": {
    flaw: "loses the last byte of a range of exactly one chunk",
    breaks: () => shortens((start, end) => start === 3 && (end - start) % 65_536 === 0),
  },
  "range-malformed": {
    flaw: "takes a start that is not a number for 0",
    breaks: () => ({
      open: (open) => (key, options) =>
        Number.isNaN(options?.range?.start)
          ? open(key, { ...options, range: { start: 0 } })
          : open(key, options),
    }),
  },
  "range-size": {
    flaw: "tells the length of the range as the size",
    breaks: () =>
      opens((opened) => {
        const { range, info } = opened;
        return range ? { ...opened, info: { ...info, size: range.end - range.start } } : opened;
      }),
  },
  "range-ignored": {
    flaw: "passes on what came when the service ignored the range",
    breaks: ({ state }) => ({
      open:
        (open) =>
        async (key, options = {}) => {
          if (!state.ignoresRange) return open(key, options);
          const { range, ...rest } = options;
          const opened = await open(key, rest);
          return range ? { ...opened, range: { end: 0, ...range } } : opened;
        },
    }),
  },
  "range-adjacent": {
    flaw: "loses the last byte of the second of many ranges",
    breaks: () => shortens((start, end) => start === 37 && end === 74),
  },
  "file-bytes": {
    flaw: "begins the region of a range at the start of the file",
    breaks: () =>
      opens((opened) => {
        const { file } = opened;
        return file
          ? { ...opened, file: { ...file, start: 0, end: file.end - file.start } }
          : opened;
      }),
  },
  "file-memory": {
    flaw: "keeps the first version in memory",
    breaks: () => {
      let kept: Uint8Array | undefined;
      return opens((opened) => {
        if (opened.bytes === undefined || opened.range) return opened;
        kept ??= opened.bytes;
        return { ...opened, bytes: kept };
      });
    },
  },
  "file-verify": {
    flaw: "verifies nothing",
    breaks: () =>
      opens((opened) =>
        opened.file ? { ...opened, file: { ...opened.file, verify: async () => {} } } : opened,
      ),
  },
  "file-close": {
    flaw: "fails when a file is closed twice",
    breaks: () =>
      opens((opened, key) => {
        const { file } = opened;
        if (file === undefined || key !== "close.bin") return opened;
        let closes = 0;
        const close = async (): Promise<void> => {
          if (++closes > 1) throw new Error("EBADF");
          await file.close();
        };
        return { ...opened, file: { ...file, close } };
      }),
  },
};
