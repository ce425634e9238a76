import { createMemoryReservations } from "../spool/files/room.ts";
import type { SaveRecord, SaveRecords } from "./save-records.ts";

/** Records of this process alone, for programs that name no folder for them. */
export function createMemoryRecords(): SaveRecords {
  const records = new Map<string, SaveRecord>();
  let count = 0;
  return {
    ...createMemoryReservations(),
    list: async () => [...records].map(([name, record]) => ({ name, record })),
    async add(record) {
      records.set(String(++count).padStart(15, "0"), record);
      for (const oldest of records.keys()) if (records.size > mostRecords) records.delete(oldest);
    },
    remove: async (name) => void records.delete(name),
  };
}

const mostRecords = 10_000;
