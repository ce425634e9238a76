import type { ReadResourceResult, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/wire";
import type { Principal } from "@sluice/core";
import { encodeBlob } from "@sluice/storage/plugin";
import { answerBytes, expectedBytes, withAnswerLease } from "../grants/answer-lease.ts";
import { answerCall, type CallWork } from "../sdk/call.ts";
import type { Reach } from "../access/reach.ts";
import { readBinary, type BinaryReads } from "./read-binary.ts";
import { partMeta, readPart, type Part, type PartRequest } from "./read-part.ts";
import { parseAskedRange } from "./read-range.ts";
import { tagOf, type SluiceParts } from "../options/sluice-parts.ts";
import type { StreamCall } from "../delivery/stream-resource.ts";

const defaultMaxReadBytes = 2 * 1024 * 1024;

/** A call for the content of one resource. */
export type ReadCall = Pick<StreamCall, "mcp" | "ctx" | "uri" | "isOurs">;

/**
 * Answers `resources/read`: `text` for a textual type in valid UTF-8, else a base64 `blob`. Above
 * `maxReadBytes` it throws `too_large` before anything is read, where the size is known. `_meta` of
 * the request can ask for a `range` and for the version with an `etag`. `reads` may carry the bytes of
 * a whole resource beside the answer.
 */
export async function readResource(
  parts: SluiceParts,
  call: ReadCall,
  reads?: BinaryReads,
): Promise<ReadResourceResult> {
  const { mcp, ctx, uri } = call;
  return answerCall(parts, { mcp, ctx, action: "read", uri, kind: "transfer" }, async (work) => {
    const { principal, entry } = work;
    const { range, etag } = askedIn(ctx);
    if (reads && range === undefined && etag === undefined) {
      const found = await ensureOurs(parts, call, principal);
      const beside = await readBinary(parts, { ctx, uri, ...found, reads }, work);
      if (beside) return { result: beside, ending: "later" };
    }
    const asked = {
      ...(range !== undefined && { range: parseAskedRange(range) }),
      ...(etag !== undefined && { etag: ensureText(etag) }),
      maxBytes: parts.options.maxReadBytes ?? defaultMaxReadBytes,
    };
    return readAs(parts, call, work, asked, async (part) => {
      await entry.admit();
      const meta = partMeta(part);
      const content = {
        uri,
        mimeType: part.mimeType,
        ...contentOf(part),
        ...(Object.keys(meta).length > 0 && { _meta: { [EXTENSION_ID]: meta } }),
      };
      return { result: { contents: [content] }, ending: { bytes: part.bytes.byteLength } };
    });
  });
}

/**
 * Reads a resource for a principal, when it is ours and the principal may, and makes an answer of it. Its place and its bytes
 * are taken before storage is read and held until the answer is sent.
 */
export async function readAs<Answer>(
  parts: SluiceParts,
  call: ReadCall,
  work: CallWork,
  request: Pick<PartRequest, "range" | "etag" | "maxBytes">,
  answer: (part: Part) => Promise<Answer>,
): Promise<Answer> {
  const { principal } = work;
  const { ctx } = call;
  const { key, reach } = await ensureOurs(parts, call, principal);
  return withAnswerLease(parts, { ctx, ...work }, async (lease) => {
    let expected = 0;
    const part = await readPart(reach, {
      ...request,
      key,
      signal: ctx.mcpReq.signal,
      onPassed: (bytes) => parts.usage.charge(tagOf(principal), bytes),
      onSize(bytes) {
        expected = expectedBytes(bytes);
        lease.add(expected);
      },
    });
    lease.sub(expected);
    lease.add(answerBytes(part));
    return answer(part);
  });
}

async function ensureOurs(
  parts: SluiceParts,
  { ctx, uri, isOurs }: ReadCall,
  principal: Principal | undefined,
): Promise<{ key: string; reach: Reach }> {
  const key = parts.mapper.toKey(uri);
  const canonical = parts.mapper.toUri(key);
  const reach = await parts.reach({ principal, key, action: "read" });
  if (uri !== canonical && !(await isOurs(canonical, ctx)))
    throw new SluiceError("not_found", "sluice: read: another spelling of what is not ours");
  return { key, reach };
}

/** Content as JSON carries it. */
function contentOf({ text, bytes }: Part): { text: string } | { blob: string } {
  return text === undefined ? { blob: encodeBlob(bytes) } : { text };
}

function ensureText(etag: unknown): string {
  if (typeof etag === "string") return etag;
  throw new SluiceError("invalid_argument", "sluice: read: the etag is no string");
}

function askedIn({ mcpReq }: ServerContext): { range?: unknown; etag?: unknown } {
  const { [EXTENSION_ID]: asked } = (mcpReq._meta ?? {}) as Record<string, unknown>;
  return typeof asked === "object" && asked !== null ? asked : {};
}
