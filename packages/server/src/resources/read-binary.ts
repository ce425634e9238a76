import type { ReadResourceResult, ServerContext } from "@modelcontextprotocol/server";
import { definedMembers, discardSource, formatEntityTag } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/wire";
import type { ObjectInfo } from "@sluice/storage";
import { orDiscard, type AuthorizedStorage } from "../storage/authorized-storage.ts";
import { tagOf } from "../access/principal.ts";
import type { Transfers } from "../limits/transfers.ts";
import type { ReplyTransfer } from "../http/reply.ts";
import type { Mount } from "../storage/mount.ts";
import type { CallWork } from "../calls/resource-calls.ts";
import { isCoded } from "../content/content-coding.ts";

/** Carries the bytes of a read beside its answer, where the other end of a request takes them there. */
export interface BinaryReads {
  /** Most bytes that go beside the answer to this request; `undefined` when none may. */
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
export async function readBinary(
  transfers: Transfers,
  { ctx, uri, mount, key, storage, reads }: BinaryRead,
  { principal, address, entry }: CallWork,
): Promise<ReadResourceResult | undefined> {
  const maxBytes = reads.maxBytes(ctx);
  if (maxBytes === undefined) return undefined;
  const release = transfers.take(tagOf(principal), address, mount.limiter);
  try {
    // opening makes it, in vain where it does not go beside the answer
    const isFit = mount.kind === "storage" || fits(await storage.describe(key), maxBytes);
    const opened = isFit ? await storage.open(key) : undefined;
    if (!opened || !fits(opened.info, maxBytes)) {
      if (opened) await discardSource(opened);
      release();
      return undefined;
    }
    return await orDiscard(opened, async () => {
      const { size, etag, digests } = opened.info;
      const mimeType = await storage.typeOf(opened.info);
      await entry.admit();
      const given = reads.deliver(ctx, {
        transfer: transfers.of(opened, { entry, release }),
        size: size!,
        ...definedMembers({ checksum: digests?.sha256 }),
      });
      const version = etag === undefined ? {} : { [EXTENSION_ID]: { etag: formatEntityTag(etag) } };
      return { contents: [{ uri, mimeType, ...given, _meta: { ...given._meta, ...version } }] };
    });
  } catch (error) {
    release();
    throw error;
  }
}

/** Whether an object goes beside an answer: its size is known and not over the limit, and no coding changes its bytes. */
function fits(info: ObjectInfo, maxBytes: number): boolean {
  return info.size !== undefined && info.size <= maxBytes && !isCoded(info);
}
