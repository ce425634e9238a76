/**
 * What the other packages of Sluice build on. Outside of the promise of versions: it changes in any release.
 * @module
 */
export { lastEventBytes } from "./contract/event-store.ts";
export { leaseAllowance, leaseCharge, leaseMs } from "./contract/grant.ts";
export {
  createSealedRecords,
  isStoredToken,
  type SealedRecords,
  type SealedRecordsOptions,
} from "./tokens/sealed-records.ts";
export { createMemoryEventStore } from "./memory/memory-event-store.ts";
export { createMemoryStateStore } from "./memory/memory-state-store.ts";
export { createMemoryUploadStore } from "./memory/memory-upload-store.ts";
