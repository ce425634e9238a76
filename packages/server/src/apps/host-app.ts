import type {
  McpServer,
  ReadResourceResult,
  Resource,
  ServerContext,
  StandardSchemaV1,
  Tool,
} from "@modelcontextprotocol/server";
import { createSha256, definedMembers } from "@sluice/core/internal";
import { clientCapabilities, clientName } from "../calls/request-caller.ts";
import { requireHandler } from "../calls/sdk-handlers.ts";
import { isFromV1 } from "../calls/sdk-v1.ts";

// MCP Apps: SEP-1865, revision 2026-01-26

/** The extension under which a host declares that it shows Apps. */
const appsExtensionId = "io.modelcontextprotocol/ui";
const appType = "text/html;profile=mcp-app";
/** The older form of `_meta.ui.resourceUri`, which some hosts still read. */
const flatUriKey = "ui/resourceUri";

/** An App: an HTML document that a host shows in a sandboxed frame beside the result of a tool. */
export interface HostApp {
  /** `ui://…` */
  readonly uri: string;
  readonly title: string;
  readonly document: () => string;
  /** URL of the endpoint: its origin is the only one that the App may connect to. */
  readonly endpointUrl: string;
}

/**
 * Whether the host of a call gets Apps: it shows them, and has no `elicitation.url`, with which a tool goes on in the same call.
 * With SDK v1 there are none.
 */
export function showsApps(mcp: McpServer, ctx: ServerContext): boolean {
  if (isFromV1(mcp)) return false;
  const capabilities = clientCapabilities(mcp, ctx);
  if (capabilities?.elicitation?.url) return false;
  const declaration: { readonly mimeTypes?: unknown } | undefined =
    capabilities?.extensions?.[appsExtensionId];
  return Array.isArray(declaration?.mimeTypes) && declaration.mimeTypes.includes(appType);
}

/** The `_meta` of a tool that has an App, besides the author's. Only the author's with SDK v1: `serveApp` does nothing there. */
export function appToolMeta(
  mcp: McpServer,
  { uri }: Pick<HostApp, "uri">,
  meta?: Readonly<Record<string, unknown>>,
): Record<string, unknown> | undefined {
  if (isFromV1(mcp)) return meta;
  return { ...meta, ui: { resourceUri: uri }, [flatUriKey]: uri };
}

const served = new WeakMap<McpServer, Set<string>>();

/**
 * Serves an App on a server that has a tool with its `_meta`; the second time it does nothing. No list has the App:
 * hosts read it by the URI in its tool, which hosts without Apps are not told.
 */
export function serveApp(mcp: McpServer, app: HostApp): void {
  if (isFromV1(mcp)) return;
  const uris = served.get(mcp) ?? new Set();
  if (uris.has(app.uri)) return;
  const config = { title: app.title, mimeType: appType };
  mcp.registerResource(app.uri, app.uri, config, (_uri, ctx) => contentOf(app, mcp, ctx));
  if (uris.size === 0) hideApps(mcp, uris);
  served.set(mcp, uris.add(app.uri));
}

function contentOf(app: HostApp, mcp: McpServer, ctx: ServerContext): ReadResourceResult {
  const { uri, document, endpointUrl } = app;
  const ui = {
    csp: { connectDomains: [new URL(endpointUrl).origin] },
    prefersBorder: true,
    ...definedMembers({ domain: domainFor(clientName(mcp, ctx), endpointUrl) }),
  };
  return { contents: [{ uri, mimeType: appType, text: document(), _meta: { ui } }] };
}

/**
 * The sandbox that a host wants an App to name. Each host has its own form and refuses others; only Claude requires one:
 * 32 hex digits of the SHA-256 of the endpoint's URL.
 */
function domainFor(name: string | undefined, endpointUrl: string): string | undefined {
  if (!/^claude/i.test(name ?? "") || !endpointUrl.startsWith("https:")) return undefined;
  const hash = createSha256();
  hash.update(new TextEncoder().encode(endpointUrl));
  return `${hash.digest().slice(0, 32)}.claudemcpcontent.com`;
}

/** Puts filters over the lists that a server has now. */
function hideApps(mcp: McpServer, uris: ReadonlySet<string>): void {
  filterList<{ resources: Resource[] }>(mcp, "resources/list", (result) => ({
    ...result,
    resources: result.resources.filter(({ uri }) => !uris.has(uri)),
  }));
  filterList<{ tools: Tool[] }>(mcp, "tools/list", (result, ctx) =>
    showsApps(mcp, ctx) ? result : { ...result, tools: result.tools.map(withoutApp) },
  );
}

function filterList<Result extends Record<string, unknown>>(
  mcp: McpServer,
  method: string,
  filter: (result: Result, ctx: ServerContext) => Result,
): void {
  const { server } = mcp;
  const list = requireHandler<Result>(server, method);
  const types = { params: unchecked, result: unchecked };
  server.setRequestHandler(method, types, async (params, ctx) =>
    filter(await list(params as object, ctx), ctx),
  );
}

function withoutApp(tool: Tool): Tool {
  const { ui: _ui, [flatUriKey]: flatUri, ...meta } = tool._meta ?? {};
  if (flatUri === undefined) return tool;
  // its place among the members stays
  return { ...tool, _meta: Object.keys(meta).length > 0 ? meta : undefined };
}

/** Passes what the handler below checks. */
const unchecked: StandardSchemaV1<Record<string, unknown>> = {
  "~standard": {
    version: 1,
    vendor: "sluice",
    validate: (value) => ({ value: value as Record<string, unknown> }),
  },
};
