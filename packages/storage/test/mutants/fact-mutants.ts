import { createHash } from "node:crypto";
import type { ObjectInfo, Overrides, StorageBackend } from "@sluice/storage";
import type { Service } from "../reference-service.ts";
import { describes, lists, mapBytes, opens } from "./mutant.ts";
import type { PromiseMutants } from "./promise-mutants.ts";

/** Understands `ifMatch` of open by the etag of the object. */
function matches(
  { store }: Service,
  isMet: (ifMatch: string, etag: string, size: number) => boolean,
): Overrides {
  return {
    open:
      (open) =>
      async (key, options = {}) => {
        const { ifMatch, ...rest } = options;
        const present = await store.describe(key).catch(() => undefined);
        const { etag = "", size = 0 } = present ?? {};
        return open(
          key,
          present && ifMatch !== undefined && isMet(ifMatch, etag, size) ? rest : options,
        );
      },
  };
}

/** Keeps in each process what it has described, until it changes the object itself. */
function remembers(): Overrides {
  const known = new Map<string, ObjectInfo>();
  return {
    describe: (describe) => async (key, options) => {
      options?.signal?.throwIfAborted();
      const info = known.get(key) ?? (await describe(key, options));
      if (key.startsWith("shared/")) known.set(key, info);
      return info;
    },
    write: (write) => async (key, options) => {
      const writer = await write(key, options);
      return {
        ...writer,
        async commit() {
          const info = await writer.commit();
          known.delete(key);
          return info;
        },
      };
    },
    remove: (remove) => async (key, options) => {
      await remove(key, options);
      known.delete(key);
    },
  };
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

export const factMutants: PromiseMutants = {
  "`info` describes exactly the bytes that `body` yields": {
    "open-info": {
      "tells another etag with a range": () =>
        opens((opened) =>
          opened.range
            ? { ...opened, info: { ...opened.info, etag: `${opened.info.etag}-part` } }
            : opened,
        ),
      "tells no type with a range": () =>
        opens((opened) => {
          if (!opened.range) return opened;
          const { contentType: _lost, ...info } = opened.info;
          return { ...opened, info };
        }),
      "tells no coding with a range": () =>
        opens((opened) => {
          if (!opened.range) return opened;
          const { contentEncoding: _lost, ...info } = opened.info;
          return { ...opened, info };
        }),
      "tells the coding only when an object is opened": () =>
        describes((info) => {
          const { contentEncoding: _lost, ...rest } = info;
          return rest;
        }),
      "tells the epoch as the time of the last change when an object is opened": () =>
        opens((opened) => ({ ...opened, info: { ...opened.info, lastModified: new Date(0) } })),
      "tells the digest of a range": () => ({
        open: (open) => async (key, options) => {
          const opened = await open(key, options);
          const { digests } = opened.info;
          if (!opened.range || !digests) return opened;
          let digest = "";
          const copy = await open(key, { range: opened.range });
          digest = sha256(new Uint8Array(await new Response(copy.body).arrayBuffer()));
          return { ...opened, info: { ...opened.info, digests: { sha256: digest } } };
        },
      }),
      "tells the key of a range as a name without its folder": () =>
        opens((opened) =>
          opened.range
            ? { ...opened, info: { ...opened.info, key: opened.info.key.split("/").at(-1) ?? "" } }
            : opened,
        ),
    },
  },
  "Whole-object digests only": {
    "open-info": {
      "tells no digest of the bytes when it opens, but that of nothing": () =>
        opens((opened) =>
          opened.info.digests
            ? { ...opened, info: { ...opened.info, digests: { sha256: sha256(new Uint8Array()) } } }
            : opened,
        ),
    },
    "list-all": {
      "lists digests of names": () =>
        lists((page) => ({
          ...page,
          objects: page.objects.map((info) => ({
            ...info,
            digests: { sha256: sha256(Buffer.from(info.key)) },
          })),
        })),
    },
  },
  "One page of objects": {
    "list-all": {
      "lists the epoch as the time of the last change": () =>
        lists((page) => ({
          ...page,
          objects: page.objects.map((info) => ({ ...info, lastModified: new Date(0) })),
        })),
      "lists sizes in whole KiB": () =>
        lists((page) => ({
          ...page,
          objects: page.objects.map((info) => {
            const { size = 0 } = info;
            return { ...info, size: size < 1024 ? size : Math.ceil(size / 1024) * 1024 };
          }),
        })),
      "does not list empty objects": () =>
        lists((page) => ({ ...page, objects: page.objects.filter(({ size }) => size !== 0) })),
    },
    "list-types": {
      "lists types without their parameters": () =>
        lists((page) => ({
          ...page,
          objects: page.objects.map((info) =>
            info.contentType === undefined
              ? info
              : { ...info, contentType: info.contentType.split(";")[0] ?? "" },
          ),
        })),
      "lists the codings of objects as their types": () =>
        lists((page) => ({
          ...page,
          objects: page.objects.map((info) =>
            info.contentEncoding === undefined
              ? info
              : { ...info, contentType: `application/${info.contentEncoding}` },
          ),
        })),
    },
  },
  "Media type as stored; never guessed by a backend": {
    "describe-type": {
      "takes the parameters off a type that it describes": () =>
        describes((info) =>
          info.contentType === undefined
            ? info
            : { ...info, contentType: info.contentType.split(";")[0] ?? "" },
        ),
      "takes the type of text for none": () =>
        describes((info) => {
          const { contentType, ...rest } = info;
          return contentType?.startsWith("text/") ? rest : info;
        }),
    },
    "write-type": {
      "stores a type without its parameters": () => ({
        write:
          (write) =>
          (key, options = {}) =>
            write(
              key,
              options.contentType === undefined
                ? options
                : { ...options, contentType: options.contentType.split(";")[0] ?? "" },
            ),
      }),
    },
    "steps-type": {
      "stores a type in steps without its parameters": () => ({
        writeInSteps:
          (writeInSteps) =>
          (key, options = {}) =>
            writeInSteps(
              key,
              options.contentType === undefined
                ? options
                : { ...options, contentType: options.contentType.split(";")[0] ?? "" },
            ),
      }),
    },
  },
  "Strong etag without quotes that the object must still have": {
    "condition-stale": {
      "is content with the beginning of the etag": (service) =>
        matches(service, (ifMatch, etag) => ifMatch.length > 1 && etag.startsWith(ifMatch)),
      "takes ifMatch for a list of etags": (service) =>
        matches(service, (ifMatch, etag) => ifMatch.split(/, */).includes(etag)),
      "does not look at the case of ifMatch": (service) =>
        matches(service, (ifMatch, etag) => ifMatch.toLowerCase() === etag.toLowerCase()),
      "cuts spaces off ifMatch": (service) =>
        matches(service, (ifMatch, etag) => ifMatch.trim() === etag),
      "forgets ifMatch with an empty object": (service) =>
        matches(service, (_, __, size) => size === 0),
    },
    "write-overwrite-facts": {
      "compares ifMatch also with the etags of earlier versions": (service) => {
        const earlier = new Map<string, Set<string>>();
        const overrides = matches(service, (ifMatch) =>
          [...earlier.values()].some((etags) => etags.has(ifMatch)),
        );
        return {
          ...overrides,
          write: (write) => async (key, options) => {
            const { etag } = await service.store.describe(key).catch(() => ({ etag: undefined }));
            const writer = await write(key, options);
            return {
              ...writer,
              async commit() {
                const info = await writer.commit();
                if (etag !== undefined) earlier.set(key, (earlier.get(key) ?? new Set()).add(etag));
                return info;
              },
            };
          },
        };
      },
    },
  },
  "Another process sees what this one has written or removed": {
    "write-process": {
      "remembers descriptions that another process has made old": () => remembers(),
      "shows its writes only to its own process": ({ store }) => {
        const own = new Set<string>();
        const isHidden = (key: string): boolean => key.startsWith("shared/") && !own.has(key);
        const hidden = async (): Promise<never> => store.describe("hidden") as Promise<never>;
        return {
          describe: (describe) => async (key, options) =>
            isHidden(key) ? hidden() : describe(key, options),
          open: (open) => async (key, options) => (isHidden(key) ? hidden() : open(key, options)),
          write: (write) => async (key, options) => {
            own.add(key);
            return write(key, options);
          },
        };
      },
      "lists what its own process has seen": () => {
        let known: Awaited<ReturnType<StorageBackend["list"]>> | undefined;
        return {
          list: (list) => async (options) => {
            const page = await list(options);
            if (options?.prefix !== "shared/") return page;
            known ??= page;
            return known;
          },
        };
      },
      "opens what another process has removed": () => {
        const bytes = new Map<string, Uint8Array>();
        return {
          open: (open) => async (key, options) => {
            if (!key.startsWith("shared/")) return open(key, options);
            try {
              const opened = await open(key, options);
              return mapBytes(opened, (all) => {
                bytes.set(key, all);
                return all;
              });
            } catch (error) {
              const all = bytes.get(key);
              if (all === undefined) throw error;
              return { info: { key, size: all.byteLength }, body: new Response(all.slice()).body! };
            }
          },
        };
      },
    },
  },
  "Hints that objects changed": {
    "watch-prefix": {
      "does not look at the case of the prefix of a watch": ({ store }) => ({
        watch: () =>
          async function* watchCaseBlind({ prefix = "", ...options }) {
            for await (const batch of store.watch(options))
              yield {
                ...batch,
                ...(batch.changed && {
                  changed: batch.changed.filter((key) =>
                    key.toLowerCase().startsWith(prefix.toLowerCase()),
                  ),
                }),
                ...(batch.removed && {
                  removed: batch.removed.filter((key) =>
                    key.toLowerCase().startsWith(prefix.toLowerCase()),
                  ),
                }),
              };
          },
      }),
    },
    "watch-change": {
      "does not report that an object became empty": ({ store }) => ({
        watch: (watch) =>
          async function* watchFull(options) {
            for await (const batch of watch(options)) {
              const changed: string[] = [];
              for (const key of batch.changed ?? [])
                if ((await store.describe(key).catch(() => undefined))?.size !== 0)
                  changed.push(key);
              if (!batch.changed?.length || changed.length > 0) yield { ...batch, changed };
            }
          },
      }),
    },
  },
};
