export {
  stateStoreCases,
  type MakeStateStore,
  type StateStoreCase,
} from "./state/state-store-cases.ts";
export {
  eventStoreCases,
  type EventStoreCase,
  type MakeEventStore,
} from "./state/event-store-cases.ts";
export { uploadStoreCases, type UploadStoreCase } from "./state/upload-store-cases.ts";
