import { createHash } from "node:crypto";
import type { ChannelPeer } from "../base/channel-client.ts";
import { bytesOf } from "../base/http.ts";
import type { HttpPeer, Peer } from "../base/http-client.ts";
import { must, type Json, type Message } from "../base/message.ts";
import type { Mode } from "./examples.ts";

interface BinaryRef {
  readonly streamId: string;
  readonly size: number;
  readonly checksum?: string;
}

/** The modes that the server declares (section 1). */
export function modesOf(peer: Peer): readonly Mode[] {
  const declared = peer.capabilities["binaryTransfer"] as Json | undefined;
  return declared?.["supported"] === true ? (declared["supportedModes"] as Mode[]) : [];
}

function refIn(message: Message | undefined): BinaryRef {
  const [content] = (message?.result?.["contents"] ?? []) as Json[];
  const ref = content?.["binaryRef"] as BinaryRef | undefined;
  must(ref !== undefined, `4: binary contents have a binaryRef: ${JSON.stringify(message)}`);
  must(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(ref.streamId), "a streamId is a UUID");
  return ref;
}

function checked(ref: BinaryRef, bytes: Buffer): Buffer {
  must(bytes.length === ref.size, "2: size is the number of bytes");
  const sum = createHash("sha256").update(bytes).digest("hex");
  must(ref.checksum === undefined || ref.checksum === sum, "2: checksum is SHA-256 in hexadecimal");
  return bytes;
}

/** The 16 bytes of a UUID. */
const idBytes = (streamId: string): Buffer => Buffer.from(streamId.replaceAll("-", ""), "hex");

/** Option A: how many bytes belong to the message before them: 16 of id, 8 of size, the data. */
export function blockBehind(message: Message, rest: Buffer): number | undefined {
  const [content] = (message.result?.["contents"] ?? []) as Json[];
  if (!content?.["binaryRef"]) return 0;
  return rest.length < 24 ? undefined : 24 + Number(rest.readBigUInt64BE(16));
}

/** Option A on the pipes of a process. */
export async function readStream(peer: ChannelPeer, uri: string): Promise<Buffer> {
  const ref = refIn(await peer.call("resources/read", { uri, transferMode: "binary" }));
  const block = peer.blocks.shift();
  must(block !== undefined, "A: the bytes follow their message");
  must(block.subarray(0, 16).equals(idBytes(ref.streamId)), "A: the header has the streamId");
  return checked(ref, block.subarray(24));
}

/** Option C on a WebSocket: frames that begin with the streamId, until `size` bytes came. */
export async function readFrames(peer: ChannelPeer, uri: string): Promise<Buffer> {
  const ref = refIn(await peer.call("resources/read", { uri, transferMode: "binary" }));
  const id = idBytes(ref.streamId);
  const sum = (): Buffer =>
    Buffer.concat(
      peer.blocks.filter((block) => block.subarray(0, 16).equals(id)).map((b) => b.subarray(16)),
    );
  for (let turn = 0; turn < 2_000 && sum().length < ref.size; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return checked(ref, sum());
}

/** Option B: a multipart answer, the message first, then the bytes. */
export async function readMultipart(peer: HttpPeer, uri: string): Promise<Buffer> {
  const accept = "application/json, text/event-stream, multipart/mixed";
  const reply = await peer.post("resources/read", { uri, transferMode: "binary" }, accept);
  const type = reply.headers["content-type"] ?? "";
  const boundary = /^multipart\/mixed;.*boundary="?([^";]+)/.exec(type)?.[1];
  const body = await bytesOf(reply.body);
  must(
    boundary !== undefined,
    `B: the answer is multipart/mixed, not ${type}: ${body.subarray(0, 300).toString()}`,
  );
  const text = `\r\n${body.toString("latin1")}`;
  const parts = text.split(`\r\n--${boundary}`).slice(1, -1);
  must(parts.length === 2, "B: a part of the message and one of the bytes");
  const split = (part: string): { head: string; bytes: Buffer } => {
    const end = part.indexOf("\r\n\r\n");
    return { head: part.slice(0, end), bytes: Buffer.from(part.slice(end + 4), "latin1") };
  };
  const [message, data] = parts.map(split);
  must(/content-type: *application\/json/i.test(message!.head), "B: the first part is JSON");
  const ref = refIn(JSON.parse(message!.bytes.toString()) as Message);
  must(data!.head.includes(`<${ref.streamId}>`), "B: Content-ID is the streamId");
  return checked(ref, data!.bytes);
}
