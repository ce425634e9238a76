export {
  stateStoreCases,
  type MakeStateStore,
  type StateStoreCase,
} from "./lib/state-store-cases.ts";
export {
  eventStoreCases,
  type EventStoreCase,
  type MakeEventStore,
} from "./lib/event-store-cases.ts";
export { uploadStoreCases, type UploadStoreCase } from "./lib/upload-store-cases.ts";
