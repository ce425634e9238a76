export {
  binaryContent,
  type BinaryContent,
  type BinaryContentOptions,
} from "./content/binary-content.ts";
export { binaryReads } from "./content/binary-content.ts";
export { openBinary, type OpenedBinary } from "./content/open-binary.ts";
export type { OutgoingBytes, SizedSource } from "./peer/outbox.ts";
export type { Outlet } from "./peer/outlet.ts";
