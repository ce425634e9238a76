import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import { reasonOf } from "../access/access.ts";
import type { AuditAction, AuditEnding, AuditEntry } from "../audit/audit.ts";
import { eraOf } from "../delivery/client-streaming.ts";
import { slotOf } from "../delivery/stream-slot.ts";
import {
  callerOf,
  carrierOf,
  outcomeOf,
  tagOf,
  type SluiceParts,
} from "../options/sluice-parts.ts";

/** A call of one of the resource methods. */
export interface ResourceCall {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
  readonly action: AuditAction;
  readonly uri?: string;
  /** `transfer` for one that gives content away. */
  readonly kind: "request" | "transfer";
}

/** Who calls, and the record that is made of it. */
export interface CallWork {
  readonly principal: Principal | undefined;
  /** Of the client, where the transport knows it. */
  readonly address: string | undefined;
  readonly entry: AuditEntry;
}

/**
 * Does the work of a call for whoever makes it, within the limits, and with one audit record. An
 * ending `"later"` leaves the record to a transfer that has only begun.
 */
export function answerCall<Result>(
  parts: SluiceParts,
  { mcp, ctx, action, uri, kind }: ResourceCall,
  work: (call: CallWork) => Promise<{ result: Result; ending?: AuditEnding | "later" }>,
): Promise<Result> {
  const caller = callerOf(ctx, mcp);
  const address = parts.addressOf(caller);
  const facts = { action, era: eraOf(mcp), uri, address };
  const entry = parts.beginAudit(facts, carrierOf(ctx));
  return entry.run(async () => {
    try {
      const { principal } = await parts.identify(caller);
      slotOf(ctx.http?.req)?.onIdentified?.();
      const tag = tagOf(principal);
      entry.facts.principal = tag;
      await parts.usage.admit(tag, kind);
      const { result, ending } = await work({ principal, address, entry });
      if (ending === "later") return result;
      await entry.conclude("complete", ending);
      if (ending?.bytes !== undefined) parts.usage.charge(tag, ending.bytes);
      return result;
    } catch (error) {
      if (ctx.mcpReq.signal.aborted) entry.end("aborted");
      else entry.end(outcomeOf(error), { reason: reasonOf(error) });
      throw error;
    }
  });
}
