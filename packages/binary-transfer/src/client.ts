export {
  binaryContent,
  type BinaryContent,
  type BinaryContentOptions,
} from "./content/binary-content.ts";
export { openBinary, type OpenedBinary } from "./content/open-binary.ts";
export { readBinary, type BinaryResource, type ReadingClient } from "./content/open-binary.ts";
export {
  createBinaryFetch,
  type BinaryFetch,
  type BinaryFetchOptions,
} from "./http/binary-fetch.ts";
export type { BinaryLimits } from "./peer/inbox.ts";
export type { OutgoingBytes, SizedSource } from "./peer/outbox.ts";
export type { Outlet } from "./peer/outlet.ts";
