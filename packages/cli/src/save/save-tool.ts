import { createHash } from "node:crypto";
import { lstat, realpath } from "node:fs/promises";
import { join } from "node:path";
import type { CallToolResult, McpServer, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import { definedMembers, discardSource, excerpt } from "@sluice/core/internal";
import type { Sluice } from "@sluice/server";
import {
  callerOf,
  optionalInput,
  revisionOf,
  tagOf,
  toolFault,
  toolSchema,
  type AuditEntry,
} from "@sluice/server/internal";
import type { OpenedObject } from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";
import { createFsBackend, removeAbandonedWrites } from "@sluice/storage-fs";
import { z } from "zod";
import { formatBytes } from "../terminal/quantity.ts";
import {
  isTaken,
  PathError,
  rethrowOfRoom,
  rethrowOfTarget,
  targetOf,
  isSameFile,
} from "./save-path.ts";

/** Adds the tool `save_to` to a server. */
type AttachSaveTool = (mcp: McpServer) => void;

interface SaveBounds {
  /** Maximum bytes of saved files together, including those of bridges. Default: 100 GiB. */
  readonly maxTotalBytes?: number | undefined;
  /** Counts with the user's bridges and other servers, and is remembered for later ones. Default: by itself. */
  readonly isShared?: boolean;
  /** Whether a caller may save now. Default: every caller. */
  readonly maySave?: (principal: Principal | undefined) => boolean;
}

/**
 * Makes the tool with which a model saves resources into `folder` of this machine. Nothing that is there is replaced, and
 * nothing outside of it is written. A file that is there with the very same bytes counts as saved.
 */
export async function openSaveTool(
  { host }: Pick<Sluice, "host">,
  folder: string,
  bounds: SaveBounds = {},
): Promise<AttachSaveTool> {
  // the partial file of a killed process
  await removeAbandonedWrites({ root: folder }).catch(() => 0);
  const root = await realpath(folder);
  const target = createFsBackend({ root, writable: true });
  // most servers save nothing, and start without it
  const { bridgeStateFolder } = await import("@sluice/bridge");
  const { openSaving } = await import("@sluice/bridge/internal");
  const { maxTotalBytes, isShared, maySave = () => true } = bounds;
  const stateFolder = isShared ? bridgeStateFolder() : undefined;
  const { saved } = await openSaving(root, Infinity, { maxTotalBytes, stateFolder, spool: false });

  async function save({ mcp, ctx, uri, path }: SaveCall): Promise<SavedCopy> {
    const { signal } = ctx.mcpReq;
    const { principal } = await host.identify(callerOf(ctx, mcp));
    if (!maySave(principal))
      throw new SluiceError("permission_denied", "this user may not save files");
    const facts = { uri, revision: revisionOf(mcp), principal: tagOf(principal) };
    return recorded(host.beginAudit({ action: "read", ...facts }), signal, async (entry) => {
      const name = host.nameOf(uri);
      const { key, storage } = await host.authorize({ principal, name, action: "stream" });
      const to = targetOf(path, key);
      await entry.recordBegun();
      const opened = await storage.open(key, { signal });
      const place = join(root, ...to.split("/"));
      const written = await write(opened, to, ctx, async (content) => {
        const { mtimeMs: modifiedMs } = await lstat(place);
        await saved.note({ key: to, uri, savedMs: Date.now(), modifiedMs, ...content });
      });
      return { path: place, ...written };
    });
  }

  /**
   * Moves the bytes into room that is reserved before; the writer refuses another count than the size that storage told.
   * `remember` has them count afterwards.
   */
  async function write(
    opened: OpenedObject,
    to: string,
    { mcpReq }: ServerContext,
    remember: (content: Omit<SavedCopy, "path">) => Promise<void>,
  ) {
    const { size } = opened.info;
    const { signal } = mcpReq;
    const noteProgress = createProgressNotes(mcpReq, size);
    const terms = { ifAbsent: true, signal, ...definedMembers({ size }) };
    const giveUp = (rethrow: (error: unknown) => never) => async (error: unknown) => {
      await discardSource(opened, error);
      return rethrow(error);
    };
    // a host that repeats a call gets the result of the first one: the name is taken by the same bytes
    let conflict: unknown;
    const noteConflict = (error: unknown): undefined => {
      if (!isTaken(error)) throw error;
      conflict = error;
    };
    const writing = target.write(to, terms).catch(noteConflict);
    await using writer = await writing.catch(giveUp(rethrowOfTarget));
    // nothing is read for a file that cannot be the one that is there
    if (!writer && size !== undefined) {
      const there = await unlessMissing(target.describe(to, { signal }));
      if (there?.size !== size) return await giveUp(rethrowOfTarget)(conflict);
    }
    // the existing one takes no more room
    const reservation = writer && (await saved.room.reserve(size).catch(giveUp(rethrowOfRoom)));
    try {
      const hash = createHash("sha256");
      let bytes = 0;
      for await (const chunk of opened.body) {
        hash.update(chunk);
        bytes += chunk.byteLength;
        await reservation?.growAhead(bytes).catch(rethrowOfRoom);
        await writer?.write(chunk).catch(rethrowOfTarget);
        noteProgress(bytes);
      }
      await writer?.commit().catch(noteConflict).catch(rethrowOfTarget);
      const facts = { size: bytes, sha256: hash.digest("hex") };
      // without a record it is an ordinary file of the user
      if (conflict === undefined) await remember(facts).catch(() => {});
      else if (!(await isSameFile(target, to, facts, signal))) rethrowOfTarget(conflict);
      return facts;
    } finally {
      await reservation?.release();
    }
  }

  return (mcp) =>
    void mcp.registerTool("save_to", descriptionOf(root), async ({ uri: given, path }, ctx) => {
      try {
        return await host.callNamed({ mcp, ctx, given }, async (uri) =>
          answerOf(await save({ mcp, ctx, uri, path })),
        );
      } catch (error) {
        ctx.mcpReq.signal.throwIfAborted();
        return refusal(`${excerpt(given)}: ${sentenceOf(error, host.onError)}`);
      }
    });
}

/** The tool as a model sees it. */
function descriptionOf(root: string) {
  return {
    title: "Save to disk",
    description: `Saves a file of any size below ${root}. Replaces nothing.`,
    inputSchema: toolSchema({
      uri: z.string(),
      path: optionalInput(z.string()).describe("Relative. Default: its name"),
    }),
    annotations: { destructiveHint: false },
  };
}

interface SaveCall {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
  readonly uri: string;
  readonly path: string | undefined;
}

interface SavedCopy {
  readonly path: string;
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
}

/** Runs a save, and ends its audit record. */
async function recorded(
  entry: AuditEntry,
  signal: AbortSignal,
  work: (entry: AuditEntry) => Promise<SavedCopy>,
): Promise<SavedCopy> {
  try {
    const saved = await work(entry);
    entry.end("complete", { bytes: saved.size });
    return saved;
  } catch (error) {
    const { cause = error } = error instanceof PathError ? error : {};
    const reason = SluiceError.is(cause) ? cause.code : "internal";
    entry.end(signal.aborted ? "aborted" : "failed", { reason });
    throw error;
  }
}

/** What a model is told: nothing of storage. */
function sentenceOf(error: unknown, onError: (error: unknown) => void): string {
  if (error instanceof PathError) return error.message;
  const { text, isServerFault } = toolFault(error);
  if (isServerFault) onError(error);
  return text;
}

function answerOf({ path, size, sha256 }: SavedCopy): CallToolResult {
  const text = `Saved to ${path}, ${formatBytes(size)}, sha-256 ${sha256}`;
  return { content: [{ type: "text", text }], structuredContent: { path, size, sha256 } };
}

function refusal(text: string): CallToolResult {
  return { isError: true, content: [{ type: "text", text }] };
}

const everyMs = 1_000;

/**
 * Tells a client that asked for it how many bytes of a call are done, at most once a second: one that gives up calls
 * which say nothing waits for a large file. A failed note changes nothing.
 */
export function createProgressNotes(
  { _meta, notify }: Pick<ServerContext["mcpReq"], "_meta" | "notify">,
  total: number | undefined,
): (progress: number) => void {
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return () => {};
  let noted = Date.now();
  return (progress) => {
    if (Date.now() - noted < everyMs) return;
    noted = Date.now();
    const params = { progressToken, progress, ...(total === undefined ? {} : { total }) };
    notify({ method: "notifications/progress", params }).catch(() => {});
  };
}
