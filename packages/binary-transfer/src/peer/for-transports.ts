// what every transport builds on, at either end
export type { IncomingStream } from "./incoming-stream.ts";
export { decodeStreamId, encodeStreamId, streamIdBytes } from "../content/binary-refs.ts";
export type { Inbox } from "./inbox.ts";
export type { BinaryTerms, Interleave } from "../content/negotiation.ts";
export { discardBytes, type Outbox, type OutgoingBytes, type OutgoingStream } from "./outbox.ts";
export {
  createBinaryPeer,
  type AnnouncedRef,
  type BinaryPeer,
  type BinaryPeerOptions,
  type Received,
  type Sending,
} from "./peer.ts";
