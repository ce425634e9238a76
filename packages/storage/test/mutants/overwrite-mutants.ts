import { setTimeout as wait } from "node:timers/promises";
import { SluiceError } from "@sluice/core";
import type { ObjectInfo, Overrides } from "@sluice/storage";
import { createBody } from "@sluice/storage/plugin";
import type { Service } from "../reference-service.ts";
import { lists, writes } from "./mutant.ts";
import { keepEnd, overwrites, peek, type PromiseMutants } from "./promise-mutants.ts";

/** Tells of an overwritten object what was right before, until it changes again. */
function remembersOverwritten(service: Service): {
  readonly overrides: Overrides;
  readonly known: (info: ObjectInfo) => ObjectInfo;
} {
  const stale = new Map<string, { readonly old: ObjectInfo; readonly etag: string | undefined }>();
  return {
    overrides: overwrites(service, (writer, { info: old }) => ({
      async commit() {
        const info = await writer.commit();
        stale.set(info.key, { old, etag: info.etag });
        return info;
      },
    })),
    known: (info) => {
      const known = stale.get(info.key);
      return known && known.etag === info.etag ? known.old : info;
    },
  };
}

export const overwriteMutants: PromiseMutants = {
  "A writer whose object becomes visible atomically at `commit`, or never": {
    "write-overwrite": {
      "overwrites in place, chunk by chunk": (service) =>
        overwrites(service, (writer, { info }, { ifMatch }) => {
          const chunks: Uint8Array[] = [];
          if (ifMatch !== undefined) return {};
          return {
            async write(chunk) {
              chunks.push(chunk.slice());
              service.store.put(info.key, Buffer.concat(chunks));
              await writer.write(chunk);
            },
          };
        }),
      "removes the object that it will replace when the write begins": (service) =>
        overwrites(service, async (_, { info }, { ifMatch }) => {
          if (ifMatch === undefined) await service.store.remove(info.key);
          return {};
        }),
      "shows zeros while the bytes of a declared size come": ({ store }) => ({
        write:
          (write) =>
          async (key, options = {}) => {
            const writer = await write(key, options);
            if (options.size === undefined || options.ifAbsent || options.ifMatch) return writer;
            store.put(key, new Uint8Array(options.size));
            const clean = async (error: unknown): Promise<never> => {
              await store.remove(key);
              throw error;
            };
            return {
              ...writer,
              write: (chunk) => writer.write(chunk).catch(clean),
              commit: () => writer.commit().catch(clean),
              async abort(reason) {
                await writer.abort(reason);
                await store.remove(key);
              },
            };
          },
      }),
      "removes the old object at commit a moment before the new one is there": (service) =>
        overwrites(service, (writer, { info }, { ifMatch }) => ({
          async commit() {
            if (ifMatch !== undefined) return writer.commit();
            await service.store.remove(info.key);
            await wait(5);
            return writer.commit();
          },
        })),
    },
    "write-overwrite-abort": {
      "removes the object that was to be replaced at abort": (service) =>
        overwrites(service, (writer, { info }) => {
          let isCommitted = false;
          return {
            async commit() {
              isCommitted = true;
              return writer.commit();
            },
            async abort(reason) {
              await writer.abort(reason);
              if (!isCommitted) await service.store.remove(info.key);
            },
          };
        }),
      "empties the object that was to be replaced at abort": (service) =>
        overwrites(service, (writer, { info }) => {
          let isCommitted = false;
          return {
            async commit() {
              isCommitted = true;
              return writer.commit();
            },
            async abort(reason) {
              await writer.abort(reason);
              if (!isCommitted) service.store.put(info.key, "");
            },
          };
        }),
      "removes the object that was to be replaced when the writer is disposed of": (service) =>
        overwrites(service, (writer, { info }) => {
          let isCommitted = false;
          return {
            async commit() {
              isCommitted = true;
              return writer.commit();
            },
            async [Symbol.asyncDispose]() {
              await writer.abort();
              if (!isCommitted) await service.store.remove(info.key);
            },
          };
        }),
      "removes the object that was to be replaced when the declared size is wrong": (service) =>
        overwrites(service, (writer, { info }) => {
          const lose = async (error: SluiceError): Promise<never> => {
            if (error.code === "invalid_argument") await service.store.remove(info.key);
            throw error;
          };
          return {
            write: (chunk) => writer.write(chunk).catch(lose),
            commit: () => writer.commit().catch(lose),
          };
        }),
      "removes the object that was to be replaced when the signal is aborted": (service) =>
        overwrites(service, (writer, { info }, { signal }) => {
          let isCommitted = false;
          signal?.addEventListener("abort", () => {
            if (!isCommitted) void service.store.remove(info.key);
          });
          return {
            async commit() {
              isCommitted = true;
              return writer.commit();
            },
          };
        }),
      "lets the abort of one writer end the other writers of the key": () => {
        const writers = new Map<string, Set<() => Promise<void>>>();
        return writes((writer, key) => {
          const all = writers.get(key) ?? new Set();
          const end = (): Promise<void> => writer.abort();
          writers.set(key, all.add(end));
          return {
            async abort(reason) {
              await writer.abort(reason);
              for (const abort of all) await abort();
            },
            commit: () => writer.commit().finally(() => all.delete(end)),
          };
        });
      },
    },
    "write-signal-late": {
      "removes the object when the signal is aborted after commit": ({ store }) => ({
        write:
          (write) =>
          async (key, options = {}) => {
            const writer = await write(key, options);
            return {
              ...writer,
              async commit() {
                const info = await writer.commit();
                options.signal?.addEventListener("abort", () => void store.remove(key));
                return info;
              },
            };
          },
      }),
    },
    "write-overwrite-facts": {
      "keeps the end of an old object that was longer": (service) =>
        overwrites(service, (writer, { bytes: old }) => ({
          commit: async () => keepEnd(service, old, await writer.commit()),
        })),
      "leaves the old object when nothing was written": (service) =>
        overwrites(service, (writer, { info }) => {
          let written = 0;
          return {
            async write(chunk) {
              written += chunk.byteLength;
              await writer.write(chunk);
            },
            async commit() {
              if (written > 0) return writer.commit();
              await writer.abort();
              return info;
            },
          };
        }),
      "takes content of the same length for the same content": (service) =>
        overwrites(service, (writer, { info }, { ifMatch }) => {
          let written = 0;
          return {
            async write(chunk) {
              written += chunk.byteLength;
              await writer.write(chunk);
            },
            async commit() {
              if (written !== info.size || ifMatch !== undefined) return writer.commit();
              await writer.abort();
              return info;
            },
          };
        }),
    },
    "write-at-once": {
      "names its temporary file by the last segment of the key": () => {
        const open = new Set<{ readonly key: string; chunks: Uint8Array[] }>();
        const nameOf = (key: string): string => key.slice(key.lastIndexOf("/") + 1);
        return writes((writer, key) => {
          const file = { key, chunks: [] as Uint8Array[] };
          // a second file of this name begins anew
          for (const other of open)
            if (other.key !== key && nameOf(other.key) === nameOf(key)) other.chunks = [];
          open.add(file);
          return {
            async write(chunk) {
              if (open.has(file)) file.chunks.push(chunk);
              else await writer.write(chunk);
            },
            async commit() {
              if (open.delete(file)) for (const chunk of file.chunks) await writer.write(chunk);
              return writer.commit();
            },
            async abort(reason) {
              open.delete(file);
              await writer.abort(reason);
            },
          };
        });
      },
    },
    "remove-write": {
      "loses what is being written when the old object is removed": () => {
        const aborts = new Map<string, () => Promise<void>>();
        return {
          ...writes((writer, key) => {
            aborts.set(key, () => writer.abort());
            return { commit: () => writer.commit().finally(() => aborts.delete(key)) };
          }),
          remove: (remove) => async (key, options) => {
            await aborts.get(key)?.();
            await remove(key, options);
          },
        };
      },
    },
  },
  "Nothing of the object that it replaces is left": {
    "write-overwrite-facts": {
      "keeps the type of the object that it replaces": (service) =>
        overwrites(service, (writer, { info: { contentType } }) => ({
          async commit() {
            const info = await writer.commit();
            const made = await peek(service, info.key);
            if (made === undefined || contentType === undefined) return info;
            return service.store.put(info.key, made.bytes, { contentType });
          },
        })),
      "says at commit the etag of the version that it replaced": (service) =>
        overwrites(service, (writer, { info: { etag } }) => ({
          commit: async () => ({ ...(await writer.commit()), ...(etag !== undefined && { etag }) }),
        })),
      "describes an overwritten object as it was before": (service) => {
        const { overrides, known } = remembersOverwritten(service);
        return {
          ...overrides,
          describe: (describe) => async (key, options) => known(await describe(key, options)),
        };
      },
      "opens an overwritten object with the old description": (service) => {
        const { overrides, known } = remembersOverwritten(service);
        return {
          ...overrides,
          open: (open) => async (key, options) => {
            const opened = await open(key, options);
            return { ...opened, info: known(opened.info) };
          },
        };
      },
      "lists an overwritten object as it was before": (service) => {
        const { overrides, known } = remembersOverwritten(service);
        return {
          ...overrides,
          ...lists((page) => ({ ...page, objects: page.objects.map((info) => known(info)) })),
        };
      },
      "lists both versions of an overwritten object": (service) => {
        const { overrides, known } = remembersOverwritten(service);
        return {
          ...overrides,
          ...lists((page) => ({
            ...page,
            objects: page.objects.flatMap((info) => [...new Set([known(info), info])]),
          })),
        };
      },
      "remembers the digests of the version that it replaced": (service) => {
        const digests = new Map<string, ObjectInfo["digests"]>();
        return {
          ...overwrites(service, (writer, { info: old }) => ({
            async commit() {
              const info = await writer.commit();
              digests.set(`${info.key} ${info.etag}`, old.digests);
              return info;
            },
          })),
          describe: (describe) => async (key, options) => {
            const info = await describe(key, options);
            const stale = digests.get(`${info.key} ${info.etag}`);
            return stale ? { ...info, digests: stale } : info;
          },
        };
      },
      "makes the etag of a write from name and length": ({ store }) => {
        const made = new Map<string, string>();
        const shown = (info: ObjectInfo): ObjectInfo => {
          const etag = made.get(`${info.key} ${info.etag}`);
          return etag === undefined ? info : { ...info, etag };
        };
        return {
          ...writes((writer) => ({
            async commit() {
              const info = await writer.commit();
              made.set(`${info.key} ${info.etag}`, `${info.key.length}-${info.size}`);
              return shown(info);
            },
          })),
          describe: (describe) => async (key, options) => shown(await describe(key, options)),
          open:
            (open) =>
            async (key, options = {}) => {
              const present = await store.describe(key).catch(() => undefined);
              const isPresent = present && options.ifMatch === shown(present).etag;
              const opened = await open(
                key,
                isPresent && present.etag ? { ...options, ifMatch: present.etag } : options,
              );
              return { ...opened, info: shown(opened.info) };
            },
          ...lists((page) => ({ ...page, objects: page.objects.map(shown) })),
        };
      },
    },
  },
  "`info` describes exactly the bytes that `body` yields": {
    "write-overwrite-read": {
      "continues with the new bytes when the object is overwritten by a writer": ({ store }) => {
        const versions = new Map<string, number>();
        return {
          ...writes((writer, key) => ({
            async commit() {
              const info = await writer.commit();
              versions.set(key, (versions.get(key) ?? 0) + 1);
              return info;
            },
          })),
          open: (open) => async (key, options) => {
            const opened = await open(key, options);
            const version = versions.get(key);
            if (opened.range || opened.file) return opened;
            const reader = opened.body.getReader();
            let position = 0;
            const body = createBody({
              async next() {
                const { value } = await reader.read();
                if (value === undefined) return undefined;
                const range = { start: position, end: position + value.byteLength };
                position = range.end;
                if (versions.get(key) === version) return value;
                const live = await store.open(key, { range }).catch(() => undefined);
                return live ? new Uint8Array(await new Response(live.body).arrayBuffer()) : value;
              },
              release: (reason) => reader.cancel(reason),
              signal: options?.signal,
            });
            return { ...opened, body };
          },
        };
      },
    },
  },
};
