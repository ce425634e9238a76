import { ProtocolError, type ServerContext } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { sharedRequest } from "./exchange.ts";

/** What a handler of SDK v1 is called with (`RequestHandlerExtra`), as far as it is used. */
export interface ExtraV1 {
  readonly signal: AbortSignal;
  readonly requestId: string | number;
  readonly sendRequest: (...args: never[]) => Promise<unknown>;
  readonly sendNotification: (...args: never[]) => Promise<void>;
}

interface KnownExtra extends ExtraV1 {
  readonly sessionId?: string;
  readonly _meta?: ServerContext["mcpReq"]["_meta"];
  readonly authInfo?: NonNullable<ServerContext["http"]>["authInfo"];
  readonly requestInfo?: {
    readonly headers: Readonly<Record<string, string | string[] | undefined>>;
    readonly url?: URL;
  };
}

/** Where a context keeps what it was made of; a copy of the context has it, too. */
const extraKey: unique symbol = Symbol("sluice.extra");

const contexts = new WeakMap<object, ServerContext>();

/** The context of SDK v2 for what a handler of SDK v1 was called with; the same one for the same object. */
export function contextOf(given: ExtraV1): ServerContext {
  const known = contexts.get(given);
  if (known) return known;
  const extra = given as KnownExtra;
  const { requestInfo, authInfo } = extra;
  const context = {
    [extraKey]: given,
    sessionId: extra.sessionId,
    mcpReq: {
      id: extra.requestId,
      _meta: extra._meta,
      signal: extra.signal,
      send: extra.sendRequest,
      notify: extra.sendNotification,
      requestState: () => undefined,
    },
    http: requestInfo && { req: requestOf(requestInfo), authInfo },
  } as unknown as ServerContext;
  contexts.set(given, context);
  return context;
}

/** The way back, for handlers of SDK v1 that are asked with a context: of the context itself or a copy. */
export function extraOf(context: ServerContext): ExtraV1 {
  const { [extraKey]: extra } = context as ServerContext & { readonly [extraKey]: ExtraV1 };
  const copy = { ...extra, signal: context.mcpReq.signal };
  contexts.set(copy, context);
  return copy;
}

/** True for what a handler of SDK v1 is called with. */
export function isExtraV1(context: object): context is ExtraV1 {
  return "sendRequest" in context && "requestId" in context;
}

/** Errors of SDK v1 and of its author's handlers, as those of SDK v2: they go out as they are. */
export function toProtocolErrorV1(error: unknown): unknown {
  if (!(error instanceof Error) || SluiceError.is(error) || error instanceof ProtocolError)
    return error;
  const { code, data, message } = error as Error & { code?: unknown; data?: unknown };
  return Number.isSafeInteger(code) ? new ProtocolError(code as number, message, data) : error;
}

/** The request itself where its transport shares it, else one with the same headers. */
function requestOf({ headers, url }: NonNullable<KnownExtra["requestInfo"]>): Request {
  const copy = new Headers();
  for (const [name, value] of Object.entries(headers))
    for (const each of Array.isArray(value) ? value : [value])
      if (each !== undefined) copy.append(name, each);
  return sharedRequest(copy) ?? new Request(url ?? "http://localhost/", { headers: copy });
}
