import { SluiceError } from "@sluice/core";
import { type Mutants, writes } from "./mutant.ts";

export const writeMutants: Mutants = {
  "write-invisible": {
    flaw: "writes in place",
    breaks: ({ store }) =>
      writes((writer, key) =>
        key.startsWith("invisible/")
          ? {
              async write(chunk) {
                store.put(key, chunk);
                await writer.write(chunk);
              },
            }
          : {},
      ),
  },
  "write-visible": {
    flaw: "does not know what it has written",
    breaks: () =>
      writes((writer) => ({ commit: async () => ({ ...(await writer.commit()), size: -1 }) })),
  },
  "write-empty": {
    flaw: "stores nothing when nothing was written",
    breaks: ({ store }) =>
      writes((writer, key) => {
        let written = 0;
        return {
          async write(chunk) {
            written += chunk.byteLength;
            await writer.write(chunk);
          },
          async commit() {
            const info = await writer.commit();
            if (written === 0) await store.remove(key);
            return info;
          },
        };
      }),
  },
  "write-chunks": {
    flaw: "puts large chunks before small ones",
    breaks: () =>
      writes((writer) => {
        const late: Uint8Array[] = [];
        return {
          async write(chunk) {
            if (chunk.byteLength === 2) late.push(chunk);
            else await writer.write(chunk);
          },
          async commit() {
            for (const chunk of late) await writer.write(chunk);
            return writer.commit();
          },
        };
      }),
  },
  "write-abort": {
    flaw: "keeps the object when abort has a reason",
    breaks: () =>
      writes((writer) => ({
        async abort(reason) {
          if (reason !== undefined) await writer.commit();
          else await writer.abort();
        },
      })),
  },
  "write-abort-late": {
    flaw: "removes the object when abort comes after commit",
    breaks: ({ store }) =>
      writes((writer, key) => {
        let committed = false;
        return {
          async commit() {
            const info = await writer.commit();
            committed = true;
            return info;
          },
          async abort(reason) {
            if (committed) await store.remove(key);
            await writer.abort(reason);
          },
        };
      }),
  },
  "write-dispose": {
    flaw: "commits when it is disposed of",
    breaks: () =>
      writes((writer) => ({ [Symbol.asyncDispose]: async () => void (await writer.commit()) })),
  },
  "write-finished": {
    flaw: "commits as often as it is asked",
    breaks: () =>
      writes((writer) => {
        let done: ReturnType<typeof writer.commit> | undefined;
        return { commit: () => (done ??= writer.commit()) };
      }),
  },
  "write-type": {
    flaw: "forgets the content type",
    breaks: () => ({
      write:
        (write) =>
        (key, { contentType: _forgotten, ...options } = {}) =>
          write(key, options),
    }),
  },
  "write-if-absent": {
    flaw: "has its own code for an existing object",
    breaks: () => ({
      write: (write) => (key, options) =>
        write(key, options).catch((error: SluiceError) => {
          throw options?.ifAbsent ? new SluiceError("already_exists", error.message) : error;
        }),
    }),
  },
  "write-if-match": {
    flaw: "creates what ifMatch wanted to replace",
    breaks: ({ store }) => ({
      write:
        (write) =>
        async (key, { ifMatch, ...options } = {}) => {
          const isThere = await store.describe(key).then(
            () => true,
            () => false,
          );
          return write(key, isThere && ifMatch !== undefined ? { ...options, ifMatch } : options);
        },
    }),
  },
  "write-size": {
    flaw: "calls a wrong number of bytes an interruption",
    breaks: () =>
      writes((writer) => ({
        commit: () =>
          writer.commit().catch((error: SluiceError) => {
            if (error.code !== "invalid_argument") throw error;
            throw new SluiceError("interrupted", error.message);
          }),
      })),
  },
  "write-race": {
    flaw: "looks whether the object is there before the write and never again",
    also: ["repeat-lost"],
    breaks: ({ store }) => ({
      write:
        (write) =>
        async (key, { ifAbsent, ...options } = {}) => {
          const isThere = await store.describe(key).then(
            () => true,
            () => false,
          );
          return write(key, ifAbsent && isThere ? { ...options, ifAbsent } : options);
        },
    }),
  },
  "write-race-match": {
    flaw: "compares ifMatch before the write and never again",
    breaks: ({ store }) => ({
      write:
        (write) =>
        async (key, options = {}) => {
          const { ifMatch, ...rest } = options;
          const { etag } = await store.describe(key).catch(() => ({ etag: undefined }));
          return write(key, ifMatch === etag ? rest : options);
        },
    }),
  },
  "write-aborted": {
    flaw: "does not look at the signal",
    breaks: () => ({
      write:
        (write) =>
        (key, { signal: _forgotten, ...options } = {}) =>
          write(key, options),
    }),
  },
  "write-again": {
    flaw: "leaves a key locked after an abandoned commit",
    breaks: () => {
      const locked = new Set<string>();
      const failed = new Set<string>();
      const overrides = writes((writer, key) => ({
        commit: () =>
          writer.commit().catch((error: SluiceError) => {
            failed.add(key);
            throw error;
          }),
        async abort(reason) {
          if (failed.has(key)) locked.add(key);
          await writer.abort(reason);
        },
      }));
      return {
        write: (write) => async (key, options) => {
          if (locked.has(key)) throw new SluiceError("unavailable", "memory: write: locked");
          return overrides.write?.(write)(key, options) ?? write(key, options);
        },
      };
    },
  },
};
