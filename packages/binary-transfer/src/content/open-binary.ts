import { SluiceError } from "@sluice/core";
import { BINARY_EXTENSION_ID, definedMembers } from "@sluice/core/internal";
import { isObject } from "../peer/negotiation.ts";
import { takeTransfer } from "../peer/untaken.ts";

/** Bytes that a message brought, inside or beside it. */
export interface OpenedBinary {
  /** As the sender says. Untrusted. */
  readonly mimeType?: string;
  /** Bytes. */
  readonly size: number;
  /** SHA-256 in hex that the bytes are checked against, where the sender gave it. */
  readonly sha256?: string;
  /** How they came. */
  readonly transferMode: "base64" | "binary";
  /**
   * The bytes, once. Nothing is kept in memory but a window; read it to its end or cancel it: a
   * stream that is not read for 30 seconds is given up (`timeout`). A clean end means that size and
   * checksum were right; else `interrupted`, `corrupt`, `protocol`, `timeout` or `signal.reason`.
   */
  readonly body: ReadableStream<Uint8Array>;
}

/**
 * Opens the bytes of content that came through an SDK: an item of `contents` of a read resource, of `content` of a
 * tool's result, an embedded resource. Works even for base64, so that callers need not care how bytes travelled.
 * `undefined` for content without bytes, such as text.
 *
 * Throws `too_large`, `throttled` or `protocol` for bytes that were refused when their message came, and `expired`
 * for ones that were opened before or not read in time. Of transfers that ended before they were opened a process
 * remembers 1,024 with 32 MiB of bytes, for 30 seconds.
 */
export function openBinary(
  content: object,
  { signal }: { readonly signal?: AbortSignal } = {},
): OpenedBinary | undefined {
  const { resource, mimeType, _meta, blob, data } = content as Record<string, unknown>;
  if (isObject(resource)) return openBinary(resource, signal ? { signal } : {});
  const typed = typeof mimeType === "string" ? { mimeType } : {};
  const ours = isObject(_meta) ? _meta[BINARY_EXTENSION_ID] : undefined;
  if (isObject(ours) && isObject(ours["binaryRef"])) return { ...typed, ...arrived(ours, signal) };
  const text = blob ?? data;
  if (typeof text !== "string") return undefined;
  const bytes = decodeBase64(text);
  return { ...typed, size: bytes.length, transferMode: "base64", body: bodyOf(bytes) };
}

function arrived(
  { handle, fault }: Record<string, unknown>,
  signal: AbortSignal | undefined,
): OpenedBinary {
  if (fault !== undefined)
    throw new SluiceError(
      fault === "too_large" || fault === "throttled" ? fault : "protocol",
      `binary: open: refused when its message came`,
    );
  const transfer = typeof handle === "string" ? takeTransfer(handle) : undefined;
  if (!transfer)
    throw new SluiceError("expired", "binary: open: opened before, or not read in time; ask again");
  const { size, checksum } = transfer.ref;
  const body = transfer.read(signal);
  return definedMembers({ size, sha256: checksum, transferMode: "binary" as const, body });
}

/** The bytes as a stream of at most one chunk. */
export function bodyOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes);
      controller.close();
    },
  });
}

function decodeBase64(text: string): Uint8Array {
  // many times faster, where the runtime has it
  const { Buffer } = globalThis as { Buffer?: typeof globalThis.Buffer };
  if (Buffer) return Buffer.from(text, "base64");
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

/** The part of an SDK's client that is used, version 1 or 2. */
export interface ReadingClient {
  // the SDKs agree on the call and differ in its types
  // oxlint-disable-next-line typescript/no-explicit-any
  readResource(params: any, options?: any): Promise<{ readonly contents: readonly object[] }>;
}

/** A resource and its bytes. */
export interface BinaryResource extends OpenedBinary {
  readonly uri: string;
}

/**
 * Reads a resource through an SDK client and gives its bytes as a stream: beside the message if the
 * transport negotiated that, else decoded from base64 or text. Rejects with errors of the client
 * and of {@link openBinary}; a response without contents is `protocol`.
 */
export async function readBinary(
  client: ReadingClient,
  uri: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<BinaryResource> {
  const { contents } = await client.readResource({ uri, transferMode: "binary" }, options);
  const [content] = contents as { readonly text?: unknown; readonly mimeType?: string }[];
  if (!content)
    throw new SluiceError("protocol", `binary: read ${JSON.stringify(uri)}: no content`);
  const opened = openBinary(content, options);
  if (opened) return { uri, ...opened };
  const bytes = new TextEncoder().encode(String(content.text));
  return definedMembers({
    uri,
    mimeType: content.mimeType,
    size: bytes.length,
    transferMode: "base64" as const,
    body: bodyOf(bytes),
  });
}
