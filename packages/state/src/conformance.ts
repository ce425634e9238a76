export { stateStoreCases } from "./conformance/state-store-cases.ts";
export type { StateStoreCase } from "./conformance/state-store/state-store-bed.ts";
export { eventStoreCases } from "./conformance/event-store-cases.ts";
export type { EventStoreCase } from "./conformance/event-store/event-store-bed.ts";
export { uploadStoreCases } from "./conformance/upload-store-cases.ts";
export type { UploadStoreCase } from "./conformance/upload-store/upload-store-bed.ts";
export type { StoreCase } from "./conformance/store-kit.ts";
