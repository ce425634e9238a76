import { protect, wrap, type ObjectInfo, type StorageBackend } from "@sluice/storage";

/** A backend that files can be written to and removed from. */
export type UploadStorage = StorageBackend & Required<Pick<StorageBackend, "write" | "remove">>;

/**
 * A backend with `protect` around it that writes nothing for other users of the machine to read; a `TypeError` when it
 * cannot take uploads.
 */
export function toUploadStorage(backend: StorageBackend): UploadStorage {
  const storage = wrap(protect(backend), {
    write: (write) => (key, options) => write(key, { ...options, private: true }),
  });
  if (!storage.write || !storage.remove)
    throw new TypeError(
      `createUploads: storage ${JSON.stringify(backend.name)} needs write and remove; pass one that has both`,
    );
  return storage as UploadStorage;
}

/** All objects below a prefix. */
export async function listAll(
  storage: StorageBackend,
  prefix: string,
  signal: AbortSignal,
): Promise<ObjectInfo[]> {
  const objects: ObjectInfo[] = [];
  let cursor: string | undefined;
  do {
    const page = await storage.list({ prefix, signal, ...(cursor !== undefined && { cursor }) });
    objects.push(...page.objects);
    ({ cursor } = page);
  } while (cursor !== undefined);
  return objects;
}
