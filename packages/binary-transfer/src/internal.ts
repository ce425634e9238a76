/**
 * What transports build on. Outside of the promise of versions: it changes in any release.
 * @module
 */
export { decodeStreamId, encodeStreamId, streamIdBytes } from "./peer/binary-refs.ts";
export { inlineMessage } from "./content/binary-content.ts";
export { opensExchange, type BinaryTerms, type Interleave } from "./peer/negotiation.ts";
export { callOf, isAnswerTo } from "./http/rpc-call.ts";
export { boundaryOf, type PartHeaders } from "./multipart/boundary.ts";
export {
  readMultipart,
  type MultipartPart,
  type MultipartReader,
} from "./multipart/read-multipart.ts";
export { readJsonPart, receiveParts } from "./multipart/receive-parts.ts";
export {
  type MultipartMessage,
  type OutgoingMultipart,
  writeMessage,
} from "./multipart/write-multipart.ts";
export type { BinaryLimits, Inbox } from "./peer/inbox.ts";
export type { IncomingStream } from "./peer/incoming-stream.ts";
export {
  discardBytes,
  type Outbox,
  type OutgoingBytes,
  type OutgoingStream,
} from "./peer/outbox.ts";
export { outletTo, type Outlet } from "./peer/outlet.ts";
export {
  createBinaryPeer,
  type AnnouncedRef,
  type BinaryPeer,
  type BinaryPeerOptions,
  type Received,
  type Sending,
} from "./peer/peer.ts";
