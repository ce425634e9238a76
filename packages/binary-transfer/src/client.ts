export {
  binaryContent,
  type BinaryContent,
  type BinaryContentOptions,
  type SizedSource,
} from "./lib/binary-content.ts";
export {
  createBinaryFetch,
  type BinaryFetch,
  type BinaryFetchOptions,
} from "./lib/http/binary-fetch.ts";
export { openBinary, type OpenedBinary } from "./lib/open-binary.ts";
export { outletTo, type Outlet } from "./lib/outlet.ts";
export { readBinary, type BinaryResource, type ReadingClient } from "./lib/read-binary.ts";

export * from "./lib/for-transports.ts";
