export { stateStoreCases, type StateStoreCase } from "./lib/state-store-cases.ts";
