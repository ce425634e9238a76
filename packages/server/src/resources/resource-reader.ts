import type { McpServer, ReadResourceResult, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import {
  definedMembers,
  discardSource,
  encodeBase64,
  EXTENSION_ID,
  formatEntityTag,
} from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { tagOf } from "../access/principal.ts";
import { answerBytes, expectedBytes, type AnswerLeases } from "../calls/answer-lease.ts";
import type { IdentifiedCall, ResourceCalls } from "../calls/resource-calls.ts";
import type { AnswersFor } from "../calls/resource-owner.ts";
import { isCoded } from "../content/content-coding.ts";
import type { ReplyTransfer } from "../http/reply.ts";
import type { Transfers } from "../limits/transfers.ts";
import { useOrDiscard, type AuthorizedStorage } from "../storage/authorized-storage.ts";
import type { Mount } from "../storage/mount.ts";
import type { Mounts } from "../storage/mounts.ts";
import { partMeta, readPart, type PartRequest, type ResourcePart } from "./read-part.ts";
import { parseAskedRange } from "./read-range.ts";
import { readForModel } from "./read-for-model.ts";

/** A call for the content of one resource. */
export interface ReadCall {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
  readonly uri: string;
  /** True when `resources/read` of a URI would come to this Sluice, and is enabled. */
  readonly isOurs: AnswersFor;
}

interface AskedPart extends Pick<PartRequest, "range" | "etag"> {
  /** Maximum bytes to give. Default: the maximum that the mount puts into JSON. */
  readonly maxBytes?: number;
  /** How often the response has the content. Default 1. */
  readonly copies?: number;
  /** Encoding of text. With `forModel` also found out. */
  readonly encoding?: string;
  /** Reads what a model takes beside UTF-8: text of other encodings, pictures and sound. Default: false. */
  readonly forModel?: boolean;
}

interface ResourceReaderOptions {
  readonly calls: ResourceCalls;
  readonly mounts: Mounts;
  readonly transfers: Transfers;
  readonly leases: AnswerLeases;
}

/** Reads resources into responses in JSON. */
export class ResourceReader {
  readonly #options: ResourceReaderOptions;

  constructor(options: ResourceReaderOptions) {
    this.#options = options;
  }

  /**
   * Answers `resources/read`: `text` for a textual type in valid UTF-8, else a base64 `blob`. Above
   * `maxReadBytes` it throws `too_large` before anything is read, if the size is known. `_meta` of
   * the request can ask for a `range` and for the version with an `etag`. `reads` may carry the bytes of
   * a whole resource beside the response.
   */
  read(call: ReadCall, reads?: BinaryReads): Promise<ReadResourceResult> {
    const { mcp, ctx, uri } = call;
    const { calls, transfers } = this.#options;
    return calls.answer({ mcp, ctx, action: "read", uri, kind: "transfer" }, async (work) => {
      const { range, etag } = askedIn(ctx);
      if (reads && range === undefined && etag === undefined) {
        const found = await this.#authorize(call, work);
        const beside = await readBinary(transfers, { ctx, uri, ...found, reads }, work);
        if (beside) return { answer: beside, ending: "handled" };
      }
      const partRequest = definedMembers({
        range: range === undefined ? undefined : parseAskedRange(range),
        etag: etag === undefined ? undefined : ensureText(etag),
      });
      return this.readPart(call, work, partRequest, async (part) => {
        await work.entry.recordBegun();
        const meta = partMeta(part);
        const content = {
          uri,
          mimeType: part.mimeType,
          ...contentOf(part),
          ...(Object.keys(meta).length > 0 && { _meta: { [EXTENSION_ID]: meta } }),
        };
        return { answer: { contents: [content] }, ending: { bytes: part.bytes.byteLength } };
      });
    });
  }

  /**
   * Reads a resource for a principal, when it is ours and the principal may, and makes a response of it. A permit and
   * its bytes are taken before storage is read and held until the response is sent.
   */
  async readPart<Answer>(
    call: ReadCall,
    work: IdentifiedCall,
    { copies = 1, forModel = false, ...request }: AskedPart,
    answer: (part: ResourcePart) => Promise<Answer>,
  ): Promise<Answer> {
    const { transfers, leases } = this.#options;
    const { ctx } = call;
    const { mount, key, storage } = await this.#authorize(call, work);
    const { principal, address } = work;
    const caller = { ctx, principal, address, mountLimiter: mount.limiter };
    return leases.hold(caller, async (lease) => {
      let expected = 0;
      const part = await (forModel ? readForModel : readPart)(storage, {
        maxBytes: mount.maxReadBytes,
        ...request,
        key,
        signal: ctx.mcpReq.signal,
        onPassed: (bytes) => transfers.charge(tagOf(principal), bytes),
        onSize(bytes) {
          expected += expectedBytes(bytes);
          lease.add(expectedBytes(bytes));
        },
      });
      lease.sub(expected);
      lease.add(copies * answerBytes(part));
      return answer(part);
    });
  }

  async #authorize(
    { ctx, uri, isOurs }: ReadCall,
    { principal }: IdentifiedCall,
  ): Promise<{ mount: Mount; key: string; storage: AuthorizedStorage }> {
    const { mount, key } = this.#options.mounts.placeFor(uri, principal);
    const canonical = mount.mapper.toUri(key);
    const storage = await mount.storageAccess.authorize({ principal, key, action: "read" });
    if (uri !== canonical && !(await isOurs(canonical, ctx)))
      throw new SluiceError(
        "not_found",
        "sluice: read: resources/read of another spelling is answered by the server's author",
      );
    return { mount, key, storage };
  }
}

function contentOf({ text, bytes }: ResourcePart): { text: string } | { blob: string } {
  return text === undefined ? { blob: encodeBase64(bytes) } : { text };
}

function ensureText(etag: unknown): string {
  if (typeof etag === "string") return etag;
  throw new SluiceError("invalid_argument", "sluice: read: the etag is not a string");
}

function askedIn({ mcpReq }: ServerContext): { range?: unknown; etag?: unknown } {
  const { [EXTENSION_ID]: extension } = (mcpReq._meta ?? {}) as Record<string, unknown>;
  return typeof extension === "object" && extension !== null ? extension : {};
}

/** Carries the bytes of a read beside its response, if the client of a request takes them there. */
export interface BinaryReads {
  /** Maximum bytes that go beside the response to this request; `undefined` when none may. */
  maxBytes(ctx: ServerContext): number | undefined;
  /**
   * Takes charge of the bytes, whatever happens, and gives the members of the content that refer to
   * them. Throws when it cannot.
   */
  deliver(
    ctx: ServerContext,
    bytes: { readonly transfer: ReplyTransfer; readonly size: number; readonly checksum?: string },
  ): { readonly blob: string; readonly _meta: Readonly<Record<string, unknown>> };
}

interface BinaryRead {
  readonly ctx: ServerContext;
  readonly uri: string;
  readonly mount: Mount;
  readonly key: string;
  readonly storage: AuthorizedStorage;
  readonly reads: BinaryReads;
}

/**
 * Answers `resources/read` with bytes beside it; the transfer ends the audit record. `undefined` for
 * a resource to be answered inside the JSON: the size is unknown or over the limit, the object is stored
 * with a content coding, or the client did not ask.
 */
async function readBinary(
  transfers: Transfers,
  { ctx, uri, mount, key, storage, reads }: BinaryRead,
  { principal, address, entry }: IdentifiedCall,
): Promise<ReadResourceResult | undefined> {
  const maxBytes = reads.maxBytes(ctx);
  if (maxBytes === undefined) return undefined;
  const release = transfers.take(tagOf(principal), address, mount.limiter);
  try {
    // opening makes it, in vain where it does not go beside the response
    const isFit = mount.kind === "storage" || fits(await storage.describe(key), maxBytes);
    const opened = isFit ? await storage.open(key) : undefined;
    if (!opened || !fits(opened.info, maxBytes)) {
      if (opened) await discardSource(opened);
      release();
      return undefined;
    }
    return await useOrDiscard(opened, async () => {
      const { size, etag, digests } = opened.info;
      const mimeType = await storage.typeOf(opened.info);
      await entry.recordBegun();
      const members = reads.deliver(ctx, {
        transfer: transfers.open(opened, { entry, release }),
        size: size!,
        ...definedMembers({ checksum: digests?.sha256 }),
      });
      const version = etag === undefined ? {} : { [EXTENSION_ID]: { etag: formatEntityTag(etag) } };
      return { contents: [{ uri, mimeType, ...members, _meta: { ...members._meta, ...version } }] };
    });
  } catch (error) {
    release();
    throw error;
  }
}

/** Whether an object goes beside a response: its size is known and not over the limit, and no coding changes its bytes. */
function fits(info: ObjectInfo, maxBytes: number): boolean {
  return info.size !== undefined && info.size <= maxBytes && !isCoded(info);
}
