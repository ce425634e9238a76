export {
  binaryContent,
  type BinaryContent,
  type BinaryContentOptions,
  type SizedSource,
} from "./content/binary-content.ts";
export {
  createBinaryFetch,
  type BinaryFetch,
  type BinaryFetchOptions,
} from "./http/binary-fetch.ts";
export { openBinary, type OpenedBinary } from "./content/open-binary.ts";
export { outletTo, type Outlet } from "./peer/outlet.ts";
export { readBinary, type BinaryResource, type ReadingClient } from "./content/read-binary.ts";

export * from "./peer/for-transports.ts";
