export { callOf, isAnswerTo, opensExchange } from "./http/rpc-call.ts";
export { inlineMessage } from "./content/inline-message.ts";
export { boundaryOf } from "./multipart/multipart-type.ts";
export type { PartHeaders } from "./multipart/part-headers.ts";
export {
  readMultipart,
  type MultipartPart,
  type MultipartReader,
} from "./multipart/read-multipart.ts";
export { readJsonPart, receiveParts, type ReceivePartsOptions } from "./multipart/receive-parts.ts";
export { writeMessage, type MultipartMessage } from "./multipart/write-message.ts";
export {
  writeMultipart,
  type OutgoingMultipart,
  type OutgoingPart,
} from "./multipart/write-multipart.ts";
