export {
  binaryContent,
  type BinaryContent,
  type BinaryContentOptions,
  type SizedSource,
} from "./content/binary-content.ts";
export { binaryReads } from "./content/binary-reads.ts";
export { openBinary, type OpenedBinary } from "./content/open-binary.ts";
export { outletOf, type Outlet } from "./peer/outlet.ts";

export * from "./peer/for-transports.ts";
