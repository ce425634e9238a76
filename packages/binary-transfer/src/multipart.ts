export { callOf, isAnswerTo, isCall, opensExchange, type RpcCall } from "./lib/http/rpc-call.ts";
export { eventsIn, type ServerEvent } from "./lib/http/server-events.ts";
export { inlineMessage } from "./lib/inline-message.ts";
export { boundaryOf } from "./lib/multipart/multipart-type.ts";
export type { PartHeaders } from "./lib/multipart/part-headers.ts";
export {
  readMultipart,
  type MultipartPart,
  type MultipartReader,
} from "./lib/multipart/read-multipart.ts";
export {
  readJsonPart,
  receiveParts,
  type ReceivePartsOptions,
} from "./lib/multipart/receive-parts.ts";
export { writeMessage, type MultipartMessage } from "./lib/multipart/write-message.ts";
export {
  writeMultipart,
  type OutgoingMultipart,
  type OutgoingPart,
} from "./lib/multipart/write-multipart.ts";
