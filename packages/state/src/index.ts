export {
  claimGrant,
  refundGrant,
  type ClaimedBody,
  type GrantClaim,
  type GrantRecord,
  type GrantTerms,
} from "./contract/grant.ts";
export {
  readSelector,
  type GrantSelector,
  type RecordTerms,
  type StateStore,
  type StateStoreLimits,
} from "./contract/state-store.ts";
export type { Stores } from "./contract/stores.ts";
export { createMemoryStores, type MemoryStoresOptions } from "./memory/memory-stores.ts";
export { storeError, type StoreRefusal } from "./contract/store-error.ts";
export {
  createTokenStore,
  type TokenStore,
  type TokenStoreOptions,
} from "./tokens/sealed-records.ts";

export {
  readEventStoreLimits,
  type Ask,
  type EventStore,
  type EventStoreLimits,
  type NewAnswer,
  type NewEvent,
  type NewStream,
  type StreamPage,
} from "./contract/event-store.ts";

export type {
  HeldFile,
  ListedFile,
  UploadLease,
  UploadStore,
  WriterClaim,
  WriterOutcome,
} from "./contract/upload-store.ts";
