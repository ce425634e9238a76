import {
  ProtocolError,
  ProtocolErrorCode,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import type { RevisionKind } from "@sluice/core/internal";
import { tagOf, type Caller, type Callers, type Identity } from "../access/principal.ts";
import type { AuditAction } from "../audit/audit-record.ts";
import type { AuditEnding, AuditEntry, AuditTrail } from "../audit/audit.ts";
import { carrierIn, type CarrierReader } from "../audit/telemetry.ts";
import { adviceOf, type AdvisedTools } from "../faults/advice.ts";
import { outcomeOf, reasonOf, faultOf, signInFault, type RpcFault } from "../faults/rpc-fault.ts";
import type { UsageMeter } from "../limits/rate-limits.ts";
import { callerOf, revisionOf, slotOf } from "./request-caller.ts";
import { clientStreaming, canStream } from "./streaming-declarations.ts";

interface CountedCall {
  readonly action: AuditAction;
  readonly uri?: string;
  /** `transfer` for one that gives content away. */
  readonly kind: "request" | "transfer";
}

interface ResourceCall extends CountedCall {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
  /** Aborts when the client disconnects. Default: the signal of the JSON-RPC request. */
  readonly signal?: AbortSignal | undefined;
}

/** A call whose caller is identified: the caller, and the audit record of the call. */
export interface IdentifiedCall {
  readonly identity: Identity;
  readonly principal: Principal | undefined;
  /** Of the client, if the transport reports it. */
  readonly address: string | undefined;
  readonly entry: AuditEntry;
}

/** What a call does once it is admitted. */
type Work<Result> = (
  call: IdentifiedCall,
) => Promise<{ answer: Result; ending?: AuditEnding | "handled" }>;

/** What a caller outside of MCP asks for, such as a page of the server's author. */
interface CallerCall extends CountedCall {
  readonly caller: Caller;
  /** Aborts when the caller disconnects. */
  readonly signal?: AbortSignal | undefined;
}

interface ResourceCallsOptions {
  readonly callers: Callers;
  readonly usage: UsageMeter;
  readonly audit: AuditTrail;
  readonly resourceMetadataUrl: string | undefined;
  /** Gets faults that clients see only as `internal`. */
  readonly onError: (error: unknown) => void;
}

interface CountedRun<Result> extends CountedCall {
  readonly caller: Caller;
  readonly revision?: RevisionKind;
  readonly carrier: CarrierReader;
  readonly isGone: () => boolean;
  readonly onIdentified?: (principal: Principal | undefined) => void;
  readonly work: Work<Result>;
}

/** What `attach` has registered about one server. */
interface ServerFacts {
  tools?: AdvisedTools;
  onIdentified?: (principal: Principal | undefined) => void;
}

/** Runs the calls of resource methods. */
export class ResourceCalls {
  readonly #options: ResourceCallsOptions;
  readonly #servers = new WeakMap<McpServer, ServerFacts>();

  constructor(options: ResourceCallsOptions) {
    this.#options = options;
  }

  /** Calls back with the principal of each later call of a server, once it is identified. */
  onIdentified(mcp: McpServer, listener: (principal: Principal | undefined) => void): void {
    this.#factsOf(mcp).onIdentified = listener;
  }

  /** Sets the names of the tools of a server, for advice in errors. */
  nameTools(mcp: McpServer, names: AdvisedTools): void {
    this.#factsOf(mcp).tools = names;
  }

  #factsOf(mcp: McpServer): ServerFacts {
    let facts = this.#servers.get(mcp);
    if (!facts) this.#servers.set(mcp, (facts = {}));
    return facts;
  }

  /**
   * Identifies the caller, counts the call, does its work and makes one audit record. The ending `"handled"` leaves the
   * record to the work: the work has made the record, or its `ReplyTransfer` will when it ends.
   */
  answer<Result>(
    { mcp, ctx, signal = ctx.mcpReq.signal, ...counted }: ResourceCall,
    work: Work<Result>,
  ): Promise<Result> {
    return this.#run({
      ...counted,
      caller: callerOf(ctx, mcp),
      revision: revisionOf(mcp),
      carrier: carrierIn(ctx.mcpReq._meta),
      isGone: () => signal.aborted || ctx.mcpReq.signal.aborted,
      onIdentified: (principal) => {
        slotOf(ctx)?.onIdentified?.();
        this.#servers.get(mcp)?.onIdentified?.(principal);
      },
      work,
    });
  }

  /** Begins the record of one of several resources of an identified call. */
  beginPart(
    { identity, address }: IdentifiedCall,
    { mcp, ctx, action, uri }: Pick<ResourceCall, "mcp" | "ctx" | "action" | "uri">,
  ): AuditEntry {
    const principal = tagOf(identity.principal);
    const facts = { action, revision: revisionOf(mcp), uri, address, principal };
    return this.#options.audit.begin(facts, carrierIn(ctx.mcpReq._meta));
  }

  /** Counts one of several resources of an identified call as a call of its own. Rejects as the meter does. */
  admitPart({ principal }: IdentifiedCall): Promise<void> | undefined {
    return this.#options.usage.admit(tagOf(principal), "transfer");
  }

  /** Like {@link ResourceCalls.answer}, for a caller outside of MCP. */
  answerCaller<Result>({ signal, ...counted }: CallerCall, work: Work<Result>): Promise<Result> {
    const carrier = (name: string): string | undefined => counted.caller.header(name);
    return this.#run({ ...counted, carrier, isGone: () => signal?.aborted === true, work });
  }

  /** Runs a handler and turns what it throws into the JSON-RPC error for the client. */
  async translatingErrors<Result>(
    { mcp, ctx, uri }: Pick<ResourceCall, "mcp" | "ctx" | "uri">,
    run: () => Promise<Result>,
  ): Promise<Result> {
    const { resourceMetadataUrl, onError } = this.#options;
    try {
      return await run();
    } catch (error) {
      // the SDK and the author's own handlers throw errors of the protocol
      if (error instanceof ProtocolError) throw error;
      const revision = revisionOf(mcp);
      if (SluiceError.is(error) && error.code === "unauthenticated") {
        const slot = slotOf(ctx);
        if (slot) slot.fault = signInFault(resourceMetadataUrl, revision);
      }
      const abilities = {
        tools: this.#servers.get(mcp)?.tools,
        takesStreams: takesStreams(mcp, ctx),
      };
      const suggestion = adviceOf(error, abilities);
      const isTooLarge = SluiceError.is(error) && error.code === "too_large";
      // clients that take streams read the suggestion, and SEP-2532 has its own message
      const hint = isTooLarge && !abilities.takesStreams ? suggestion : undefined;
      const fault = faultOf(error, revision, { uri, suggestion, hint });
      if (fault.data.reason === "internal" && !ctx.mcpReq.signal.aborted) onError(error);
      throw toProtocolError(fault);
    }
  }

  #run<Result>({
    caller,
    action,
    uri,
    kind,
    revision,
    carrier,
    isGone,
    onIdentified,
    work,
  }: CountedRun<Result>): Promise<Result> {
    const { callers, usage, audit } = this.#options;
    const address = callers.addressOf(caller);
    const entry = audit.begin({ action, revision, uri, address }, carrier);
    return entry.run(async () => {
      try {
        const identity = await callers.identify(caller);
        const { principal } = identity;
        onIdentified?.(principal);
        const tag = tagOf(principal);
        entry.facts.principal = tag;
        await usage.admit(tag, kind);
        const { answer, ending } = await work({ identity, principal, address, entry });
        if (ending === "handled") return answer;
        await entry.conclude("complete", ending);
        if (ending?.bytes !== undefined) usage.charge(tag, ending.bytes);
        return answer;
      } catch (error) {
        if (isGone()) entry.end("aborted");
        else entry.end(outcomeOf(error), { reason: reasonOf(error) });
        throw error;
      }
    });
  }
}

/** Whether the server offers streams to this client and the client declared that it takes them. */
function takesStreams(mcp: McpServer, ctx: ServerContext): boolean {
  return canStream(mcp, ctx) && typeof clientStreaming(mcp, ctx) === "object";
}

/** A fault as the SDK's handlers throw it. */
export function toProtocolError({ code, message, data }: RpcFault): ProtocolError {
  return new ProtocolError(code, message, data);
}

/** The response of a server to a method that it cannot serve here. */
export function methodNotFound(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.MethodNotFound, message);
}
