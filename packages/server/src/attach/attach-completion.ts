import type { CompleteResult, McpServer } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { UriMapper } from "@sluice/storage";
import { allowedUris } from "../access/access.ts";
import type { Callers } from "../access/principal.ts";
import type { ResourceCalls } from "../calls/resource-calls.ts";
import { isAbsent } from "../calls/resource-owner.ts";
import { requireHandler } from "../calls/sdk-handlers.ts";
import { rethrowStorageFault } from "../faults/storage-fault.ts";
import type { Mount } from "../storage/mount.ts";
import type { Mounts } from "../storage/mounts.ts";

/** Maximum suggestions in a response (MCP, completion). */
const maxValues = 100;
/** Objects looked at for one response. */
const maxObjects = 1_000;
/** Maximum UTF-8 bytes of a legal key. */
const longestKey = 1_024;

interface CompletionParts {
  readonly calls: ResourceCalls;
  readonly callers: Callers;
  readonly mounts: Mounts;
}

/** Completes the variable of our templates from storage; every other completion stays the author's. */
export function attachCompletion(
  mcp: McpServer,
  { calls, callers, mounts }: CompletionParts,
): void {
  const { server } = mcp;
  const completeOthers = requireHandler<CompleteResult>(server, "completion/complete");
  server.setRequestHandler("completion/complete", (request, ctx) =>
    calls.translatingErrors({ mcp, ctx }, async (): Promise<CompleteResult> => {
      const { ref, argument } = request.params;
      const mount =
        ref.type === "ref/resource"
          ? mounts.all.find(({ template }) => template?.uriTemplate === ref.uri)
          : undefined;
      if (!mount || (await isAbsent(callers, mount, { mcp, ctx })))
        return completeOthers(request.params, ctx);
      if (argument.name !== "key" || mount.kind === "provider")
        return { completion: { values: [], hasMore: false } };
      const { value } = argument;
      const call = { mcp, ctx, action: "completion", kind: "request" } as const;
      return calls.answer(call, async ({ principal, entry }) => {
        const { signal } = ctx.mcpReq;
        const completion = await completeKey(mount, { value, principal, signal });
        entry.facts.shown = completion.values.length;
        return { answer: { completion } };
      });
    }),
  );
}

interface KeyStart {
  readonly value: string;
  readonly principal: Principal | undefined;
  readonly signal: AbortSignal;
}

/**
 * What may follow, one step at a time as in a shell: names of files, and of folders with a `/` at the
 * end. Only the first 1,000 objects are looked at.
 */
async function completeKey(
  { storageAccess, access, mapper }: Mount,
  { value, principal, signal }: KeyStart,
): Promise<CompleteResult["completion"]> {
  const start = decoded(value);
  if (new TextEncoder().encode(start).length > longestKey) return { values: [], hasMore: false };
  const storage = storageAccess.backendFor(principal);
  if (!storage) return { values: [], hasMore: false };
  const values = new Set<string>();
  let cursor: string | undefined;
  let left = maxObjects;
  do {
    const page = await storage
      .list(definedMembers({ prefix: start, limit: left, signal, cursor }))
      .catch(rethrowStorageFault);
    left -= Math.max(page.objects.length, 1);
    const uris = page.objects.map(({ key }) => mapper.toUri(key));
    for (const uri of await allowedUris(access, principal, { uris, action: "list" })) {
      const step = nextStep(mapper.toKey(uri), start.length);
      if (values.size < maxValues) values.add(variableOf(mapper, step));
      else if (!values.has(variableOf(mapper, step))) return { values: [...values], hasMore: true };
    }
    ({ cursor } = page);
  } while (cursor !== undefined && left > 0);
  // with access rules the rest may have nothing for this principal
  const isOpen = cursor !== undefined && access.hasRules;
  return { values: [...values], ...(isOpen ? {} : { hasMore: cursor !== undefined }) };
}

/** A key up to the end of the segment that `from` is in. */
function nextStep(key: string, from: number): string {
  const slash = key.indexOf("/", from);
  return slash < 0 ? key : key.slice(0, slash + 1);
}

/**
 * The value with which `{+key}` gives the URI of a key. Most keys are their own: the expansion encodes what it must.
 * `?`, `#` and what looks like an encoding it keeps as it is (RFC 6570 §3.2.3).
 */
function variableOf(mapper: UriMapper, key: string): string {
  if (!/[?#]|%[0-9a-f]{2}/i.test(key)) return key;
  const isFolder = key.endsWith("/");
  const uri = mapper.toUri(isFolder ? key.slice(0, -1) : key);
  return uri.slice(mapper.baseUri.length) + (isFolder ? "/" : "");
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
