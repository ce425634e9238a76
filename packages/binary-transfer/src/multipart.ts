export {
  readMultipart,
  type MultipartPart,
  type MultipartReader,
} from "./lib/multipart/read-multipart.ts";
export {
  writeMultipart,
  type OutgoingMultipart,
  type OutgoingPart,
} from "./lib/multipart/write-multipart.ts";
export type { PartHeaders } from "./lib/multipart/part-headers.ts";
