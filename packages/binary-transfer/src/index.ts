export {
  binaryContent,
  type BinaryContent,
  type BinaryContentOptions,
  type SizedSource,
} from "./lib/binary-content.ts";
export { binaryReads } from "./lib/binary-reads.ts";
export { openBinary, type OpenedBinary } from "./lib/open-binary.ts";
export { outletOf, type Outlet } from "./lib/outlet.ts";

export * from "./lib/for-transports.ts";
