/**
 * What the Binary Transfer RFC asks (`BINARY/…`, by its sections): it has few key words, so every
 * sentence that binds has an entry.
 * @module
 */
import { entriesOf } from "./requirement-entries.ts";
import type { Requirement } from "./requirements.ts";

const { must, should, may, stated } = entriesOf("BINARY");

export const binaryRequirements: readonly Requirement[] = [
  stated(
    "1.negotiation/server-declares",
    "server",
    "binaryTransfer has supported, supportedModes and may have maxBinarySize",
  ),
  stated(
    "1.negotiation/client-declares",
    "client",
    "binaryTransfer has supported and may have preferredMode and maxBinarySize",
  ),
  stated(
    "2.content/binary-ref",
    "both",
    "binary content has transferMode binary and a binaryRef with streamId and size",
  ),
  stated("2.content/base64", "both", "base64 content has its data, as before"),
  may("2.content/may-checksum", "both", "a binaryRef can have a SHA-256"),
  stated(
    "3.a.stream/frame",
    "both",
    "behind the message: stream id (16 bytes), size (8 bytes), the bytes",
  ),
  stated(
    "3.b.multipart/parts",
    "both",
    "multipart/mixed: the JSON first, then a part with Content-ID for each stream",
  ),
  stated(
    "3.c.websocket/frames",
    "both",
    "text frames are messages, binary frames begin with the stream id",
  ),
  stated("4.read/transfer-mode", "server", "resources/read takes transferMode base64 or binary"),
  stated("4.read/binary-ref", "server", "contents of a binary read have a binaryRef"),
  must("compatibility/unsupporting-base64", "both", "peers without support continue with base64"),
  must("compatibility/default-base64", "both", "without transferMode a read is base64"),
  must("compatibility/only-both", "both", "nothing is binary unless both ends declared it"),
  should("security/should-random-ids", "both", "stream ids are cryptographically random UUIDs"),
  may("security/may-verify", "both", "checksums allow to verify the bytes"),
  stated("security/size-limits", "both", "size limits prevent memory exhaustion"),
  stated("transports/stdio", "both", "stdio: length-prefixed chunks after the message"),
  stated("transports/http", "both", "HTTP: multipart/mixed"),
  stated("transports/websocket", "both", "WebSocket: binary frames"),
];
