export {
  stateStoreCases,
  type MakeStateStore,
  type StateStoreCase,
} from "./conformance/state-store-cases.ts";
export {
  eventStoreCases,
  type EventStoreCase,
  type MakeEventStore,
} from "./conformance/event-store-cases.ts";
export { uploadStoreCases, type UploadStoreCase } from "./conformance/upload-store-cases.ts";
