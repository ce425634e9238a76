import {
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import {
  decodeBase64,
  fileNameFromUri,
  formatContentType,
  onAbort,
  parseMediaType,
  within,
} from "@sluice/core/internal";
import { createBytesBody, withBody } from "@sluice/storage/plugin";
import { tagOf } from "../access/principal.ts";
import type { AnswerLeases } from "../calls/answer-lease.ts";
import { revisionOf, slotOf } from "../calls/request-caller.ts";
import type { IdentifiedCall } from "../calls/resource-calls.ts";
import type { AnswersFor, ReadOthers } from "../calls/resource-owner.ts";
import { clientStreaming } from "../calls/streaming-declarations.ts";
import { FaultError, rpcFault } from "../faults/rpc-fault.ts";
import type { ReadCall } from "../resources/resource-reader.ts";
import type { Place } from "../storage/mounts.ts";
import type { DeliveryModes, StreamAnswer } from "./modes.ts";

/** Collaborators of streaming registered resources. */
export interface RegisteredParts {
  readonly modes: Pick<DeliveryModes, "direct">;
  readonly leases: AnswerLeases;
  /** Maximum bytes of one registered resource. */
  readonly maxReadBytes: number;
}

/** A call about a URI that the author of a server may have registered. */
export interface AuthorCall {
  readonly ctx: ServerContext;
  readonly uri: string;
  readonly isAuthored: AnswersFor;
  readonly readOthers: ReadOthers;
}

/**
 * Streams a resource that the author of a server registered with the SDK: what its `resources/read` gives, as bytes.
 * The caller has checked the scopes. For a URI below a base, `place` is set: then only a read shows whether the
 * resource is the author's. `undefined` for a URI that comes to this Sluice, and for one outside of the mounts that
 * cannot go as bytes.
 *
 * Order: capability → permit → read → size → record. Below a base the access rules of the mount come first, then the
 * read. The bytes go in the answer itself: nothing is kept from which a download URL could give them again.
 */
export async function streamRegistered(
  { modes, leases, maxReadBytes }: RegisteredParts,
  call: ReadCall & AuthorCall,
  { identity, principal, address, entry }: IdentifiedCall,
  place?: Place,
): Promise<StreamAnswer | undefined> {
  const { mcp, ctx, uri } = call;
  // a hidden URI is looked up in storage like a missing one, and the author is not asked
  if (place && !(await isAllowed(place, principal))) return undefined;
  const earlyResult = place && (await readAsAuthor(call));
  if (place && !earlyResult) return undefined;
  const slot = slotOf(ctx);
  const client = clientStreaming(mcp, ctx, slot);
  if (!client) throw new FaultError(rpcFault("client_capability", revisionOf(mcp), { uri }));
  if (!slot || client === "unknown") {
    if (earlyResult)
      throw notStreamable("the author registered it, and there is no HTTP answer for its bytes");
    return undefined;
  }

  entry.facts.mode = "direct";
  const key = fileNameFromUri(uri) ?? hostOf(uri);
  const lease = leases.open(tagOf(principal), address);
  const answer = await modes.direct({
    uri,
    // the mount's limiter is misused here: releasing it frees the memory of the content. The Sluice's own limiter still
    // counts the stream.
    place: { key, name: uri, mount: { limiter: { take: () => () => lease.release() } } },
    info: { key },
    mimeType: "application/octet-stream",
    storage: {
      async open(_key, { signal } = {}) {
        const { bytes, mimeType } = contentOf(
          earlyResult ?? (await readAsAuthor(call)),
          maxReadBytes,
        );
        lease.add(bytes.byteLength);
        const info = { key, size: bytes.byteLength, contentType: mimeType };
        return withBody({ info, bytes }, () => createBytesBody(bytes, signal));
      },
      typeOf: async ({ contentType }) => contentType!,
    },
    // nothing is kept to resume from
    identity: { ...identity, mayMint: false },
    address,
    client,
    entry,
    signal: ctx.http?.req?.signal,
  });
  if (answer) return answer;
  throw notStreamable("the author registered it, and its type is that of messages of the protocol");
}

async function isAllowed(
  { mount, key }: Place,
  principal: Principal | undefined,
): Promise<boolean> {
  const { mapper, access } = mount;
  return (await access.decide(principal, mapper.toUri(key), "stream")) === "allow";
}

/** Names what has no path, such as `config://app`. */
function hostOf(uri: string): string {
  return URL.canParse(uri) ? new URL(uri).host : "";
}

/** Longest wait for the author's handler: clients of the SDK also give up after this time. */
const readTimeoutMs = 60_000;

/**
 * What the author's `resources/read` gives; `undefined` for a URI that comes to this Sluice. The author's handler is aborted
 * when the client disconnects, and after 60 s, with `timeout`. Its errors pass as they are; one that says that there
 * is no such resource is `not_found`, unless the author lists it.
 */
async function readAsAuthor(call: AuthorCall): Promise<ReadResourceResult | undefined> {
  const { ctx, uri, readOthers } = call;
  const controller = new AbortController();
  const { signal } = controller;
  // the first aborts when the call is cancelled, the second when the client disconnects
  const removers = [ctx.mcpReq.signal, ctx.http?.req?.signal].map((source) =>
    onAbort(source, (reason) => controller.abort(reason)),
  );
  try {
    signal.throwIfAborted();
    const answer = readOthers(uri, { ...ctx, mcpReq: { ...ctx.mcpReq, signal } });
    return await within(answer, { timeoutMs: readTimeoutMs, expired, signal });
  } catch (error) {
    controller.abort(error);
    throw await readError(call, error);
  } finally {
    for (const remove of removers) remove();
  }
}

function expired(): SluiceError {
  return new SluiceError("timeout", `sluice: read: the author's handler took ${readTimeoutMs} ms`);
}

/** A disabled resource counts as missing: the SDK's error would reveal that it exists. */
async function readError({ ctx, uri, isAuthored }: AuthorCall, error: unknown): Promise<unknown> {
  if (!(error instanceof ProtocolError) || !absences.has(error.code)) return error;
  if (await isAuthored(uri, ctx)) return error;
  return new SluiceError("not_found", "sluice: read: the author has no such resource", {
    cause: error,
  });
}

/** Codes of SDKs for a missing or disabled resource. Authors also use them for parameters. */
const absences: ReadonlySet<number> = new Set([
  ProtocolErrorCode.InvalidParams,
  ProtocolErrorCode.ResourceNotFound,
]);

/** What the author of a server answers to `resources/read`, as bytes. */
interface RegisteredContent {
  readonly bytes: Uint8Array;
  /** Safe to send. */
  readonly mimeType: string;
}

const encoder = new TextEncoder();

/**
 * The bytes of the one content of a response to `resources/read`: `text` as UTF-8, `blob` out of base64. Throws
 * `unsupported` for a response that only `resources/read` can give: none or several contents, more than `maxBytes`,
 * text with a lone surrogate. Throws `corrupt` for a blob that is not base64.
 */
function contentOf(result: unknown, maxBytes: number): RegisteredContent {
  const { contents } = Object(result) as { readonly contents?: unknown };
  const [content, ...others] = Array.isArray(contents) ? (contents as unknown[]) : [];
  const { text, blob, mimeType } = Object(content) as Readonly<Record<string, unknown>>;
  if (others.length > 0) throw notStreamable("what the author registered has several contents");
  if (typeof text === "string" && blob === undefined)
    return { bytes: encodeText(text, maxBytes), mimeType: textType(mimeType) };
  if (typeof blob === "string" && text === undefined)
    return { bytes: decodeBlob(blob, maxBytes), mimeType: safeType(mimeType) };
  throw notStreamable("what the author registered has no content");
}

function encodeText(text: string, maxBytes: number): Uint8Array {
  // no character takes less than a byte
  if (text.length > maxBytes) throw tooLarge(maxBytes);
  if (/\p{Surrogate}/u.test(text))
    throw notStreamable("what the author registered has a lone surrogate in its text");
  const bytes = encoder.encode(text);
  if (bytes.byteLength > maxBytes) throw tooLarge(maxBytes);
  return bytes;
}

function decodeBlob(blob: string, maxBytes: number): Uint8Array {
  const maxChars = Math.ceil((maxBytes * 4) / 3) + 4;
  if (blob.length > maxChars) throw tooLarge(maxBytes);
  const bytes = decodeBase64(blob);
  if (!bytes) throw new SluiceError("corrupt", "sluice: stream: the author's blob is not base64");
  if (bytes.byteLength > maxBytes) throw tooLarge(maxBytes);
  return bytes;
}

/** Text leaves as UTF-8, whatever charset its author named. */
function textType(mimeType: unknown): string {
  if (mimeType === undefined) return "text/plain";
  const type = safeType(mimeType);
  const { essence, charset = "utf-8" } = parseMediaType(type)!;
  return charset.toLowerCase() === "utf-8" ? type : `${essence}; charset=utf-8`;
}

function safeType(mimeType: unknown): string {
  return formatContentType(typeof mimeType === "string" ? mimeType : undefined);
}

function tooLarge(maxBytes: number): SluiceError {
  return notStreamable(`what the author registered has more than ${maxBytes} bytes`);
}

/** The reason is for the operator; the client is told to use `resources/read`. */
function notStreamable(reason: string): SluiceError {
  return new SluiceError("unsupported", `sluice: stream: ${reason}`);
}
