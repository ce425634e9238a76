import {
  ProtocolError,
  ProtocolErrorCode,
  type ResourceTemplate,
} from "@modelcontextprotocol/server";
import { z } from "zod/v4";
import type { ExtraV1 } from "./sdk-v1-context.ts";

interface RequestV1 {
  readonly params?: Readonly<Record<string, unknown>>;
}

type HandlerV1 = (request: RequestV1, extra: ExtraV1) => Promise<object>;

/** The low-level server of SDK v1, with what it keeps to itself. */
export interface LowServer {
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

/** Where templates and tools are added. */
export interface Registry {
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
export function registryOf(low: LowServer, high: object | undefined): Registry {
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
    low.setRequestHandler(
      z.looseObject({ method: z.literal(method), params: z.looseObject({}).optional() }),
      handler,
    );

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
