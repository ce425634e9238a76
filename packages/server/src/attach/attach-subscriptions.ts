import {
  PerRequestHTTPServerTransport,
  type InitializeResult,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import type { Callers } from "../access/principal.ts";
import { callerOf, revisionOf } from "../calls/request-caller.ts";
import { notesOf } from "../calls/exchange.ts";
import { methodNotFound, type ResourceCalls } from "../calls/resource-calls.ts";
import type { AnswersFor } from "../calls/resource-owner.ts";
import { ensureReadScopes, findHandler, requireHandler } from "../calls/sdk-handlers.ts";
import type { Subscriber, Subscribers } from "../changes/subscriber.ts";
import type { Mounts } from "../storage/mounts.ts";

interface SubscriptionParts {
  readonly calls: ResourceCalls;
  readonly callers: Callers;
  readonly subscribers: Subscribers;
  readonly mounts: Mounts;
  /** Runs work that outlives the call it begins in, outside of the call's trace. */
  readonly runApart: <Result>(work: () => Result) => Result;
  readonly onError: (error: unknown) => void;
}

/**
 * Serves `resources/subscribe` and `unsubscribe` (session revisions) and tells long-lived connections what
 * changed. In stateless revisions over HTTP the SDK answers `subscriptions/listen` before any server
 * is asked, so there the transport does it, with `listen` of the Sluice; over any other channel the
 * SDK sends on what its client listens to out of all that the server tells.
 *
 * Gives what to call when a client was given a list, a template or a content: on a lasting connection it is notified
 * of changes.
 */
export function attachSubscriptions(
  mcp: McpServer,
  isOurs: AnswersFor,
  { calls, callers, subscribers, mounts, runApart, onError }: SubscriptionParts,
): (ctx: ServerContext) => void {
  const { server } = mcp;
  let channel: Subscriber | undefined;

  function open(principal: Principal | undefined): Subscriber {
    if (channel) {
      channel.actFor(principal);
      return channel;
    }
    const { transport } = server;
    // it can have closed while storage was asked: nothing would ever end what begins now
    if (!transport)
      throw new SluiceError("unavailable", "sluice: subscribe: the connection is gone");
    const subscriber = subscribers.create(principal);
    channel = subscriber;
    const before = transport.onclose;
    Object.assign(transport, {
      onclose() {
        subscriber.close();
        // the server may be connected again
        if (channel === subscriber) channel = undefined;
        before?.();
      },
    });
    runApart(() => pass(subscriber, mcp)).catch(onError);
    return subscriber;
  }

  // also before a call that is refused: what was withdrawn counts from the next request on
  calls.onIdentified(mcp, (principal) => channel?.actFor(principal));

  /** True when the author of the server answers for a URI. */
  async function isForeign(uri: string, ctx: ServerContext): Promise<boolean> {
    return !mounts.covers(uri) || !(await isOurs(uri, ctx));
  }

  const subscribe = findHandler(server, "resources/subscribe");
  const unsubscribe = findHandler(server, "resources/unsubscribe");

  server.registerCapabilities({ resources: { subscribe: true } });
  server.setRequestHandler("resources/subscribe", ({ params }, ctx) =>
    calls.translatingErrors({ mcp, ctx, uri: params.uri }, async () => {
      const { uri } = params;
      if (await isForeign(uri, ctx)) return subscribe ? subscribe(params, ctx) : {};
      if (!isLasting(mcp, ctx))
        throw methodNotFound("resources/subscribe needs a session: this server keeps none");
      return calls.answer(
        { mcp, ctx, action: "subscribe", uri, kind: "request" },
        async ({ principal, entry }) => {
          const { signal } = ctx.mcpReq;
          const found = await subscribers.find({ uri, principal, signal });
          await ensureReadScopes(mcp, ctx, uri);
          await entry.recordBegun();
          open(principal).follow(uri, found);
          return { answer: {} };
        },
      );
    }),
  );
  server.setRequestHandler("resources/unsubscribe", ({ params }, ctx) =>
    calls.translatingErrors({ mcp, ctx, uri: params.uri }, async () => {
      channel?.unfollow(params.uri);
      if (unsubscribe && (await isForeign(params.uri, ctx))) return unsubscribe(params, ctx);
      return {};
    }),
  );

  // a server without a way back to its client must not promise one
  const initialize = requireHandler<InitializeResult>(server, "initialize");
  server.setRequestHandler("initialize", async ({ params }, ctx) => {
    const result = await initialize(params, ctx);
    if (subscribe || isLasting(mcp, ctx)) return result;
    const { subscribe: _none, ...resources } = result.capabilities.resources ?? {};
    return { ...result, capabilities: { ...result.capabilities, resources } };
  });

  return (ctx) => {
    if (!isLasting(mcp, ctx)) return;
    const join = async (): Promise<void> => {
      const { principal } = await callers.identify(callerOf(ctx, mcp));
      open(principal).hearLists(revisionOf(mcp) === "modern");
    };
    // an unknown caller receives nothing; the request itself is answered with the reason
    join().catch(() => {});
  };
}

/** True when there is a way to the client after this request was answered. */
function isLasting(mcp: McpServer, ctx: ServerContext): boolean {
  if (revisionOf(mcp) === "modern")
    return !(mcp.server.transport instanceof PerRequestHTTPServerTransport);
  const isHttp = ctx.http !== undefined && notesOf(ctx.http.req).isLasting !== true;
  return !isHttp || ctx.sessionId !== undefined;
}

async function pass(subscriber: Subscriber, { server }: McpServer): Promise<void> {
  for (;;) {
    const notification = await subscriber.next();
    if (!notification) return;
    try {
      await server.notification(notification);
    } catch {
      // the connection is gone, and says so itself
    }
  }
}
