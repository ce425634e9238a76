import { definedMembers, SluiceError } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import { withBody } from "@sluice/storage/plugin";
import type { AskMetadata, ResourceMetadata } from "./resource-metadata.ts";
import type { AccessAction } from "../access/access.ts";
import { orDiscard, type AuthorizedStorage, type StorageAccess } from "./authorized-storage.ts";

/** Thrown where a resource shall be streamed that its author serves by `resources/read` alone. */
export const readAloneFault: SluiceError = new SluiceError(
  "unsupported",
  "sluice: stream: the author serves it by read alone",
);

/** Storage of each principal with what the author of the server knows about the objects that the principal may have. */
export function describedStorages(storages: StorageAccess, ask: AskMetadata): StorageAccess {
  return {
    of: storages.of,
    authorize: async (request) =>
      withMetadata(await storages.authorize(request), ask, request.action),
  };
}

/**
 * Storage of one request with what the author of the server knows about its objects: their media type counts in place of that of
 * storage, and what is not streamed is `unsupported` to `stream`. The author is asked once for a version.
 */
function withMetadata(
  storage: AuthorizedStorage,
  ask: AskMetadata,
  action: AccessAction,
): AuthorizedStorage {
  const { presign } = storage;
  const byInfo = new WeakMap<ObjectInfo, Promise<ResourceMetadata>>();
  let last: { readonly version: string; readonly known: Promise<ResourceMetadata> } | undefined;

  function about(info: ObjectInfo, signal?: AbortSignal): Promise<ResourceMetadata> {
    const { etag, key } = info;
    const version = etag === undefined ? undefined : `${etag} ${key}`;
    let known = byInfo.get(info) ?? (last?.version === version ? last?.known : undefined);
    if (known) return known;
    known = ask(info, signal);
    byInfo.set(info, known);
    if (version !== undefined) last = { version, known };
    return known;
  }

  async function described(info: ObjectInfo, signal: AbortSignal | undefined): Promise<ObjectInfo> {
    const known = await about(info, signal);
    if (action === "stream" && known.streamable === false) throw readAloneFault;
    if (known.mimeType === undefined) return info;
    const typed = { ...info, contentType: known.mimeType };
    byInfo.set(typed, Promise.resolve(known));
    return typed;
  }

  return {
    ...definedMembers({ presign }),
    about,
    describe: async (key, options) =>
      described(await storage.describe(key, options), options?.signal),
    async open(key, options) {
      const opened = await storage.open(key, options);
      const info = await orDiscard(opened, () => described(opened.info, options?.signal));
      const { range, file, bytes } = opened;
      return withBody({ info, range, file, bytes }, () => opened.body);
    },
    // some types are those of everything to storage, but not to the author
    typeOf: async (info, options) =>
      (await about(info, options?.signal)).mimeType ?? storage.typeOf(info, options),
    isText: (info, options) => storage.isText(info, options),
  };
}
