import {
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  specTypeSchemas,
  type ClientCapabilities,
  type ResourceTemplate,
  type ScopeChallengeHandler,
  type ServerContext,
  type StandardSchemaV1,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { z } from "zod/v4";
import { sharedRequest } from "./exchange.ts";

/** A low-level `Server` of SDK v1 (`@modelcontextprotocol/sdk`), from 1.26 on. */
export interface ServerV1 {
  readonly setRequestHandler: (...args: never[]) => void;
  readonly registerCapabilities: (...args: never[]) => void;
  readonly notification: (...args: never[]) => Promise<void>;
}

/** A `McpServer` of SDK v1 (`@modelcontextprotocol/sdk`), from 1.26 on. */
export interface McpServerV1 {
  readonly server: ServerV1;
  readonly registerResource: (...args: never[]) => unknown;
  readonly registerTool: (...args: never[]) => unknown;
}

/** A server of either SDK. */
export type AnyMcpServer = McpServer | McpServerV1 | ServerV1;

/** Where a handler of either SDK was called. */
export interface AnyCall {
  readonly mcp: AnyMcpServer;
  readonly ctx: ServerContext | ExtraV1;
}

/** The same as a handler of SDK v2 would see it. Throws a `TypeError` for a server of neither SDK, and without a context. */
export function callInV2(call: AnyCall): { mcp: McpServer; ctx: ServerContext } {
  const { mcp, ctx }: Partial<AnyCall> = call ?? {};
  if (typeof mcp !== "object" || typeof ctx !== "object")
    throw new TypeError(
      "mcp must be the server that the handler is registered on, and ctx what it was called with (ctx; extra in SDK v1)",
    );
  return { mcp: serverInV2(mcp), ctx: isExtraV1(ctx) ? contextOf(ctx) : ctx };
}

/** Marks what {@link serverInV2} makes. */
const adapted: unique symbol = Symbol("sluice.adapted");

/** True for a server that {@link serverInV2} made. */
export function isFromV1(mcp: McpServer): boolean {
  return adapted in mcp;
}

/**
 * A server as the handlers know one of SDK v2; for one of SDK v1 always the same object. Throws a `TypeError` for what is a
 * server of neither SDK.
 */
export function serverInV2(given: AnyMcpServer): McpServer {
  if (typeof (given as unknown) !== "object" || !given) throw unknownServer();
  if (isV2(given)) return given;
  const low = ("server" in given ? given.server : given) as unknown as LowServer;
  if (!(low?._requestHandlers instanceof Map) || "_getRequestHandler" in low) throw unknownServer();
  let mcp = servers.get(low);
  if (!mcp) {
    mcp = adapt(low, registryOf(low, "server" in given ? given : undefined));
    servers.set(low, mcp);
  }
  return mcp;
}

function unknownServer(): TypeError {
  return new TypeError(
    "attach: the first argument must be an McpServer that is not connected yet: a McpServer of @modelcontextprotocol/server, or a McpServer or Server of @modelcontextprotocol/sdk from 1.26 on",
  );
}

const servers = new WeakMap<LowServer, McpServer>();

/** True for a server as SDK v2 makes them, and for what {@link serverInV2} gives. */
export function isV2(given: unknown): given is McpServer {
  if (typeof given !== "object" || given === null) return false;
  return given instanceof McpServer || "resolveScopeChallenge" in given;
}

type HandlerV2 = (request: object, ctx: ServerContext) => object | Promise<object>;

function adapt(low: LowServer, registry: Registry): McpServer {
  const clientCapabilities = rememberCapabilities(low);
  let challenge: ScopeChallengeHandler | undefined;
  let ours: ResourceTemplate | undefined;

  const server = {
    get transport() {
      return low.transport;
    },
    getCapabilities: () => low.getCapabilities(),
    getClientCapabilities: () => clientCapabilities() ?? low.getClientCapabilities(),
    // SDK v1 has no stateless revision
    getNegotiatedProtocolVersion: () => undefined,
    notification: (message: object) => low.notification(message),
    registerCapabilities: (capabilities: object) => low.registerCapabilities(capabilities),
    assertCanSetRequestHandler: (method: string) => low.assertCanSetRequestHandler(method),
    setRequestHandler(
      method: string,
      ...rest: [HandlerV2] | [{ params: StandardSchemaV1 }, HandlerV2]
    ) {
      const [first, second] = rest;
      low.setRequestHandler(requestSchema(method), async (request, extra) => {
        const ctx = contextOf(extra);
        if (!second) return (first as HandlerV2)(ensureSpec(method, request), ctx);
        const { params } = first as { params: StandardSchemaV1 };
        return second(ensureValid(method, params, request.params ?? {}), ctx);
      });
    },
    _getRequestHandler(method: string) {
      const handler = low._requestHandlers.get(method);
      return (
        handler &&
        (async (request: object, ctx: ServerContext) =>
          handler(request, extraOf(ctx)).catch((error: unknown) => {
            throw toProtocolErrorV1(error);
          }))
      );
    },
  };

  const mcp = {
    [adapted]: true,
    server,
    registerResource(
      name: string,
      template: ResourceTemplate,
      { scopeChallenge, ...config }: { scopeChallenge?: ScopeChallengeHandler },
      read: (uri: URL, variables: object, ctx: ServerContext) => Promise<object>,
    ) {
      challenge = scopeChallenge;
      ours = template;
      registry.addTemplate(name, template, config, (uri, variables, extra) =>
        read(uri, variables, contextOf(extra)),
      );
    },
    registerTool(
      name: string,
      config: object,
      call: (args: object, ctx: ServerContext) => Promise<object>,
    ) {
      registry.addTool(name, config, (args, extra) => call(args, contextOf(extra)));
    },
    async resolveScopeChallenge(about: Parameters<ScopeChallengeHandler>[0]) {
      const { uri } = about.request.params as { readonly uri: string };
      return ours?.uriTemplate.match(uri) ? challenge?.(about) : undefined;
    },
  };
  return mcp as unknown as McpServer;
}

/** The capabilities of a client as it sent them: SDK v1 drops the members that it does not know. */
function rememberCapabilities(low: LowServer): () => ClientCapabilities | undefined {
  const initialize = low._requestHandlers.get("initialize");
  let capabilities: ClientCapabilities | undefined;
  if (initialize)
    low.setRequestHandler(requestSchema("initialize"), (request, extra) => {
      capabilities = request.params?.["capabilities"] as ClientCapabilities | undefined;
      return initialize(request, extra);
    });
  return () => capabilities;
}

/** SDK v1 reads the method out of a schema; the parameters are checked by what the handler declares. */
function requestSchema(method: string): z.ZodType {
  return z.looseObject({ method: z.literal(method), params: z.looseObject({}).optional() });
}

const specTypes: Readonly<Record<string, keyof typeof specTypeSchemas>> = {
  "completion/complete": "CompleteRequest",
  "resources/list": "ListResourcesRequest",
  "resources/subscribe": "SubscribeRequest",
  "resources/templates/list": "ListResourceTemplatesRequest",
  "resources/unsubscribe": "UnsubscribeRequest",
};

function ensureSpec(method: string, request: object): object {
  const type = specTypes[method];
  if (type === undefined) return request;
  return ensureValid(method, specTypeSchemas[type], request);
}

function ensureValid(method: string, schema: StandardSchemaV1, given: object): object {
  const checked = schema["~standard"].validate(given);
  if (checked instanceof Promise) throw new TypeError("sluice: this SDK checks asynchronously");
  if (checked.issues) throw invalidParams(method, checked.issues[0]?.message);
  return checked.value as object;
}

function invalidParams(method: string, why = "malformed"): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Invalid params for ${method}: ${why}`);
}

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
function contextOf(given: ExtraV1): ServerContext {
  const sameContext = contexts.get(given);
  if (sameContext) return sameContext;
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

/** The `extra` that a context, or a copy of it, was made of: handlers of SDK v1 are called with it. */
function extraOf(context: ServerContext): ExtraV1 {
  const { [extraKey]: extra } = context as ServerContext & { readonly [extraKey]: ExtraV1 };
  const copy = { ...extra, signal: context.mcpReq.signal };
  contexts.set(copy, context);
  return copy;
}

/** True for what a handler of SDK v1 is called with. */
function isExtraV1(context: object): context is ExtraV1 {
  return "sendRequest" in context && "requestId" in context;
}

/** Errors of SDK v1 and of its author's handlers, as those of SDK v2: they go out as they are. */
function toProtocolErrorV1(error: unknown): unknown {
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

interface RequestV1 {
  readonly params?: Readonly<Record<string, unknown>>;
}

type HandlerV1 = (request: RequestV1, extra: ExtraV1) => Promise<object>;

/** The low-level server of SDK v1, with what it keeps to itself. */
interface LowServer {
  readonly transport?: object;
  readonly _requestHandlers: ReadonlyMap<
    string,
    (request: object, extra: ExtraV1) => Promise<object>
  >;
  setRequestHandler(schema: z.ZodType, handler: HandlerV1): void;
  assertCanSetRequestHandler(method: string): void;
  registerCapabilities(capabilities: object): void;
  getCapabilities(): object;
  getClientCapabilities(): object | undefined;
  notification(message: object): Promise<void>;
}

type ReadTemplate = (uri: URL, variables: object, extra: ExtraV1) => Promise<object>;
type CallTool = (args: object, extra: ExtraV1) => Promise<object>;

interface Registry {
  addTemplate(name: string, template: ResourceTemplate, config: object, read: ReadTemplate): void;
  addTool(name: string, config: object, call: CallTool): void;
}

interface HighServer {
  registerResource(
    name: string,
    template: ResourceTemplate,
    config: object,
    read: ReadTemplate,
  ): void;
  registerTool(name: string, config: object, call: CallTool): void;
}

/** The registry of a `McpServer`, or what stands in for it on a low-level `Server`, which has none. */
function registryOf(low: LowServer, high: object | undefined): Registry {
  if (!high) return createRegistry(low);
  const mcp = high as HighServer;
  return {
    addTemplate: (...given) => mcp.registerResource(...given),
    addTool: (...given) => mcp.registerTool(...given),
  };
}

function createRegistry(low: LowServer): Registry {
  const earlier = (method: string): HandlerV1 | undefined => low._requestHandlers.get(method);
  const set = (method: string, handler: HandlerV1): void =>
    low.setRequestHandler(requestSchema(method), handler);

  return {
    addTemplate(name, template, config, read) {
      const readOthers = earlier("resources/read");
      const listOthers = earlier("resources/templates/list");
      low.registerCapabilities({ resources: { listChanged: true }, completions: {} });
      set("resources/read", async (request, extra) => {
        const uri = request.params?.["uri"];
        if (typeof uri !== "string" || !URL.canParse(uri))
          throw new ProtocolError(ProtocolErrorCode.InvalidParams, "uri must be a URI");
        const variables = template.uriTemplate.match(new URL(uri).href);
        if (variables) return read(new URL(uri), variables, extra);
        if (readOthers) return readOthers(request, extra);
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Resource ${uri} not found`);
      });
      set("resources/templates/list", async (request, extra) => {
        const others = (await listOthers?.(request, extra)) ?? {};
        const { resourceTemplates = [] } = others as { resourceTemplates?: object[] };
        const ours = { name, uriTemplate: template.uriTemplate.toString(), ...config };
        return { ...others, resourceTemplates: [...resourceTemplates, ours] };
      });
      if (!earlier("resources/list")) set("resources/list", async () => ({ resources: [] }));
      if (!earlier("completion/complete"))
        set("completion/complete", async () => ({ completion: { values: [], hasMore: false } }));
    },
    addTool(name) {
      throw new TypeError(
        `sluice: attach: a low-level Server has no registry for the tool ${name}: pass a McpServer, or leave tools out and answer tools/call yourself`,
      );
    },
  };
}
