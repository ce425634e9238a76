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

// for transports
export type { Arrival } from "./lib/arrival.ts";
export { decodeStreamId, encodeStreamId, streamIdBytes } from "./lib/binary-refs.ts";
export type { Inbox } from "./lib/inbox.ts";
export type { BinaryTerms, Interleave } from "./lib/negotiation.ts";
export {
  discardBytes,
  type Outbox,
  type OutgoingBytes,
  type OutgoingStream,
} from "./lib/outbox.ts";
export {
  createBinaryPeer,
  type AnnouncedRef,
  type BinaryPeer,
  type BinaryPeerOptions,
  type Received,
  type Sending,
} from "./lib/peer.ts";
