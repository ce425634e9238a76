import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { createBytesBody, withBody, withKept, type KeptObject } from "@sluice/storage/plugin";

export const bytes: Uint8Array = new TextEncoder().encode("0123456789");
/** What is kept at first, as `a.bin`. */
export const first: KeptObject = { info: { key: "a.bin", size: 10, etag: "v1" }, bytes };

/** A storage that has an object in memory, and notes what was opened and described. */
export function createKeeping(): {
  storage: StorageBackend;
  opened: string[];
  described: string[];
  readonly keep: (kept?: KeptObject) => void;
} {
  const store = createMemoryBackend({ "a.bin": "slow bytes" });
  const opened: string[] = [];
  const described: string[] = [];
  let kept: KeptObject | undefined = first;
  return {
    opened,
    described,
    keep: (next) => void (kept = next),
    storage: {
      name: "keeping",
      list: (options) => store.list(options),
      describe: async (key) => {
        described.push(key);
        return kept?.info ?? store.describe(key);
      },
      open: withKept(
        async (key, { range, signal } = {}) => {
          opened.push(key);
          if (kept && !range) {
            const current = kept;
            return withBody(current, () => createBytesBody(current.bytes.slice(), signal));
          }
          const slow = await store.open(key, { ...(range && { range }) });
          return { ...slow, info: { ...slow.info, etag: kept?.info.etag ?? "none" } };
        },
        (key) => (key === "a.bin" ? kept : undefined),
      ),
    },
  };
}
