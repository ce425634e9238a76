import type { SaveRecord, SaveRecords } from "./save-records.ts";

/** Records of this process alone, for programs that name no folder for them. */
export function createMemoryRecords(): SaveRecords {
  const records = new Map<string, SaveRecord>();
  const reserved = new Map<number, number>();
  let count = 0;
  return {
    list: async () => [...records].map(([name, record]) => ({ name, record })),
    async add(record) {
      records.set(String(++count).padStart(15, "0"), record);
      for (const oldest of records.keys()) if (records.size > mostRecords) records.delete(oldest);
    },
    remove: async (name) => void records.delete(name),
    reservedBytes: async () => [...reserved.values()].reduce((sum, bytes) => sum + bytes, 0),
    async reserve(bytes) {
      const id = ++count;
      reserved.set(id, bytes);
      return async () => void reserved.delete(id);
    },
  };
}

const mostRecords = 10_000;
