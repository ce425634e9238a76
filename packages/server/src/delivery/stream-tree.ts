import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import {
  createFlowBody,
  definedMembers,
  joinChunks,
  lesserTreeBounds,
  maxTreeFileBytes,
  maxTreeUriLength,
  TREE_TYPE,
  treeBounds,
  type ClientStreaming,
  type TreeHead,
  type TreeRefusal,
} from "@sluice/core/internal";
import type { OpenedObject } from "@sluice/storage";
import { tagOf } from "../access/principal.ts";
import type { AuditEntry } from "../audit/audit.ts";
import { leaveReply, type ReplySlot } from "../calls/exchange.ts";
import { revisionOf, slotOf } from "../calls/request-caller.ts";
import type { IdentifiedCall } from "../calls/resource-calls.ts";
import type { AnswersFor } from "../calls/resource-owner.ts";
import { clientStreaming } from "../calls/streaming-declarations.ts";
import { FaultError, faultOf, outcomeOf, reasonOf, rpcFault } from "../faults/rpc-fault.ts";
import { shieldHeaders } from "../http/byte-headers.ts";
import type { Reply, TransferResult } from "../http/reply.ts";
import type { ByteLease } from "../limits/byte-account.ts";
import type { StreamLimiter } from "../limits/stream-limiter.ts";
import { useOrDiscard } from "../storage/authorized-storage.ts";
import type { Place } from "../storage/mounts.ts";
import { targetOrRethrow } from "../urls/redirect-reply.ts";
import { ensureFits } from "./modes.ts";
import {
  answerOrFault,
  ensureStreamScopes,
  findPlace,
  type StreamParts,
} from "./stream-resource.ts";
import { chunksOf, TreeFlow, type EndFile, type TreePart } from "./tree-flow.ts";

/** A call for many files in one response. */
export interface TreeCall {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
  readonly uris: readonly string[];
  readonly isOurs: AnswersFor;
}

/** Up to this size a file is read whole before its turn. */
const maxReadAheadBytes = 256 * 1024;

/**
 * Answers the call for many files: their frames go to the reply slot, as the bytes of `resources/stream` do. Each file is
 * counted, checked and recorded as one call of `resources/stream` would be, when it is its turn; one that does not come is
 * told in its place, and the others follow. The whole response holds one permit.
 */
export function streamTree(parts: StreamParts, call: TreeCall): Promise<Record<string, unknown>> {
  const { mcp, ctx } = call;
  const slot = slotOf(ctx);
  return answerOrFault(parts, { mcp, ctx }, async (signal) => {
    const about = { mcp, ctx, action: "tree", kind: "transfer", signal } as const;
    const reply = await parts.calls.answer(about, async (identified) => ({
      answer: openTree(parts, call, identified, slot),
      ending: "handled",
    }));
    leaveReply(slot, reply);
    // a dummy: the SDK requires a result, and the transport discards it
    return {};
  });
}

function openTree(
  parts: StreamParts,
  call: TreeCall,
  identified: IdentifiedCall,
  slot: ReplySlot | undefined,
): Reply {
  const { mcp, ctx, uris } = call;
  const client = clientStreaming(mcp, ctx, slot);
  if (typeof client !== "object" || !client.tree)
    throw new FaultError(rpcFault("client_capability", revisionOf(mcp)));
  if (!slot) throw new SluiceError("unsupported", "sluice: tree: no HTTP response to send it in");
  const { maxFiles, maxBytes } = lesserTreeBounds(client.tree, treeBounds);
  if (uris.length === 0 || uris.length > maxFiles)
    throw new SluiceError("invalid_argument", `sluice: tree: name 1 to ${maxFiles} resources`);
  const { transfers, leases } = parts;
  const { identity, address, entry } = identified;
  const tag = tagOf(identity.principal);
  const permits = new MountPermits(tag, address);
  const leave = transfers.take(tag, address, undefined);
  const lease = leases.open(tag, address);
  const run: TreeResponse = {
    parts,
    call,
    identified,
    permits,
    lease,
    client,
    maxBytes,
    openedBytes: 0,
  };
  const flow = new TreeFlow(uris.length, (i, signal) => openFile(run, i, signal));
  let isOver = false;
  const end = ({ outcome, error }: TransferResult): void => {
    if (isOver) return;
    isOver = true;
    const fileOutcome = outcome === "offloaded" ? "complete" : outcome;
    flow.settle(fileOutcome);
    flow.cancel(error);
    permits.leave();
    lease.release();
    leave();
    entry.end(fileOutcome);
    if (fileOutcome === "failed") parts.onError(error);
  };
  return {
    status: 200,
    headers: ["Content-Type", TREE_TYPE, ...shieldHeaders],
    transfer: { source: { body: createFlowBody(flow) }, end },
  };
}

/** What the files of one response share. */
interface TreeResponse {
  readonly parts: StreamParts;
  readonly call: TreeCall;
  readonly identified: IdentifiedCall;
  readonly permits: MountPermits;
  readonly lease: ByteLease;
  readonly client: ClientStreaming;
  readonly maxBytes: number;
  /** Of all files that were opened. */
  openedBytes: number;
}

/** The part of an index. Order: rate → mount and key → access → scopes → owner → open → size → policy → record. */
async function openFile(run: TreeResponse, i: number, signal: AbortSignal): Promise<TreePart> {
  const { parts, call, identified } = run;
  const { mcp, ctx, uris } = call;
  const uri = uris[i]!;
  const entry = parts.calls.beginPart(identified, { mcp, ctx, action: "stream", uri });
  entry.facts.mode = "direct";
  try {
    return await entry.run(async () => {
      if (uri.length > maxTreeUriLength)
        throw new SluiceError("invalid_argument", "sluice: tree: the URI is too long");
      await parts.calls.admitPart(identified);
      const opened = await openAllowed(run, uri, signal);
      return useOrDiscard(opened, () => partOf(run, i, opened, entry, signal));
    });
  } catch (error) {
    const outcome = isOfVersion(error) ? "failed" : outcomeOf(error);
    if (signal.aborted) entry.end("aborted");
    else entry.end(outcome, { reason: reasonOf(error) });
    if (outcome === "failed" && !signal.aborted && !isOfVersion(error)) parts.onError(error);
    return { refusal: refusalOf(i, error, mcp) };
  }
}

async function openAllowed(
  run: TreeResponse,
  uri: string,
  signal: AbortSignal,
): Promise<OpenedObject> {
  const { parts, call, identified, permits, client } = run;
  const { principal } = identified;
  const place = findPlace(parts.mounts, uri, principal);
  if (!place) throw new SluiceError("unsupported", "sluice: tree: not below a base URI");
  const { mount, key } = place;
  permits.take(mount.limiter);
  const canonical = mount.mapper.toUri(key);
  const request = { principal, key, action: "stream", uri: canonical } as const;
  const storage = await mount.storageAccess.authorize(request);
  // both spellings, as for one resource
  for (const spelling of new Set([canonical, uri])) {
    await ensureStreamScopes(call, spelling, parts.resourceMetadataUrl);
    if (!(await call.isOurs(spelling, call.ctx)))
      throw new SluiceError("unsupported", "sluice: tree: the author serves this URI");
  }
  const opened = await storage.open(key, { signal }).catch((error: unknown): never => {
    targetOrRethrow(mount, error);
    throw new SluiceError("unsupported", "sluice: tree: its provider gives a URL");
  });
  return useOrDiscard(opened, async () => {
    const { info } = opened;
    ensureFits(info, client);
    const policy = mount.delivery;
    const mode =
      typeof policy === "function"
        ? policy({ uri, info, mimeType: await storage.typeOf(info, { signal }), principal, client })
        : policy;
    if (mode !== "auto" && mode !== "direct")
      throw new SluiceError("unsupported", `sluice: tree: it is delivered as ${mode}`);
    return opened;
  });
}

async function partOf(
  run: TreeResponse,
  i: number,
  opened: OpenedObject,
  entry: AuditEntry,
  signal: AbortSignal,
): Promise<TreePart> {
  const { size, etag, lastModified, contentEncoding } = opened.info;
  if (size === undefined || contentEncoding !== undefined)
    throw new SluiceError("unsupported", "sluice: tree: its size is unknown, or it is coded");
  if (size > maxTreeFileBytes || run.openedBytes + size > run.maxBytes)
    throw new SluiceError("too_large", "sluice: tree: too large for this response", { size });
  run.openedBytes += size;
  const content = await readAhead(run, opened, size, signal);
  await entry.recordBegun();
  const modifiedMs = lastModified && Math.floor(lastModified.getTime());
  const head: TreeHead = {
    i,
    size,
    ...definedMembers({ etag, modifiedMs: modifiedMs! > 0 ? modifiedMs : undefined }),
  };
  const leasedBytes = content === undefined || opened.bytes ? 0 : size;
  return { head, opened, content, end: endOf(run, entry, leasedBytes) };
}

/** All of a small file, as long as the memory of responses has room for it. */
async function readAhead(
  { lease }: TreeResponse,
  opened: OpenedObject,
  size: number,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  if (opened.bytes) return opened.bytes;
  if (size > maxReadAheadBytes || !hasRoom(lease, size)) return undefined;
  try {
    const chunks: Uint8Array[] = [];
    let receivedBytes = 0;
    for await (const chunk of chunksOf(opened.body, signal)) {
      receivedBytes += chunk.length;
      if (receivedBytes > size) break;
      chunks.push(chunk);
    }
    if (receivedBytes !== size)
      throw new SluiceError("precondition_failed", "sluice: tree: the file has another size");
    return joinChunks(chunks, size);
  } catch (error) {
    lease.sub(size);
    throw error;
  }
}

function hasRoom(lease: ByteLease, bytes: number): boolean {
  try {
    lease.add(bytes);
    return true;
  } catch (error) {
    if (SluiceError.is(error)) return false;
    throw error;
  }
}

/** The end of a file: its record, its bytes in the rate, and its memory. */
function endOf(
  { parts, identified, lease }: TreeResponse,
  entry: AuditEntry,
  leasedBytes: number,
): EndFile {
  let hasEnded = false;
  return (outcome, bytes, error) => {
    if (hasEnded) return;
    hasEnded = true;
    lease.sub(leasedBytes);
    parts.transfers.charge(tagOf(identified.identity.principal), bytes);
    entry.end(outcome, { bytes, ...(error !== undefined && { reason: reasonOf(error) }) });
    if (outcome === "complete") countFile(identified.entry);
    if (outcome === "failed" && !isOfVersion(error)) parts.onError(error);
  };
}

function countFile({ facts }: AuditEntry): void {
  facts.shown = (facts.shown ?? 0) + 1;
}

/** True if the file was replaced or cut while it was read, which is not a fault of the server. */
function isOfVersion(error: unknown): boolean {
  return SluiceError.is(error) && versionCodes.has(error.code);
}

const versionCodes: ReadonlySet<string> = new Set(["precondition_failed", "interrupted"]);

function refusalOf(i: number, error: unknown, mcp: McpServer): TreeRefusal {
  if (isOfVersion(error)) return { i, error: { reason: "interrupted" } };
  const { reason, retryAfterMs } = faultOf(error, revisionOf(mcp)).data;
  return { i, error: { reason, ...definedMembers({ retryAfterMs }) } };
}

/** Permits of mounts with limits of their own: one of each for the whole response. */
class MountPermits {
  readonly #principal: string | undefined;
  readonly #address: string | undefined;
  readonly #leaves = new Map<StreamLimiter, () => void>();

  constructor(principal: string | undefined, address: string | undefined) {
    this.#principal = principal;
    this.#address = address;
  }

  /** Takes one, unless it was taken. Throws as the limiter does. */
  take(limiter: Place["mount"]["limiter"]): void {
    if (limiter && !this.#leaves.has(limiter))
      this.#leaves.set(limiter, limiter.take(this.#principal, this.#address));
  }

  leave(): void {
    for (const leave of this.#leaves.values()) leave();
    this.#leaves.clear();
  }
}
