import { McpServer } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import { createSluice, type Sluice } from "@sluice/server";
import type { AuditFile, KeyFile } from "@sluice/server/node";
import { createMemoryStores } from "@sluice/state";
import type { StorageBackend } from "@sluice/storage";
import { version } from "../terminal/print.ts";
import { openSaveTool } from "../save/save-tool.ts";
import { serveLimits, serveState } from "./serve-limits.ts";
import { isPrivate, type ServeCommandOptions } from "./serve-options.ts";
import { auditOf } from "./serve-trail.ts";
import { openServedUploads, type ServedUploads } from "./serve-uploads.ts";

/** What is served, before any transport. */
export interface Served {
  readonly sluice: Sluice;
  /** Makes a server for one request, session or connection. */
  readonly create: () => McpServer;
  readonly uploads: ServedUploads | undefined;
}

/** The parts that exist before a server can be made. */
interface ServedParts {
  readonly storage: StorageBackend;
  /** URL of the endpoint. */
  readonly endpoint: string;
  readonly trail: AuditFile | undefined;
  readonly keys: KeyFile | undefined;
}

const defaultMaxUpload = 2 ** 30;

/** Composes what the options ask for. All callers are one user. */
export async function openServed(
  { storage, endpoint, trail, keys }: ServedParts,
  options: ServeCommandOptions,
): Promise<Served> {
  const {
    uri,
    token,
    tools = true,
    uploads: inbox,
    maxUpload = defaultMaxUpload,
    maxStep,
    saveTo,
    maxTotal,
  } = options;
  const holder: Principal = { issuer: "sluice serve", subject: "token", clientId: "" };
  const isGuarded = token !== undefined && !options.stdio;
  const sluice = createSluice({
    storage,
    baseUri: uri,
    endpoint,
    keys: keys?.keys ?? "ephemeral",
    // one process: with a store of its own, links are short whatever the keys are
    stores: createMemoryStores(serveState),
    // about the ephemeral keys: one process whose URLs may end with it is the point
    onWarning() {},
    // without a token there is nothing to tell callers apart by, also not their sessions
    principal: () => (isGuarded ? holder : undefined),
    anonymous: !isGuarded,
    // a public server without a token gives strangers no room in the store
    links: isGuarded || isPrivate(options),
    audit: auditOf(trail),
    limits: serveLimits,
  });
  const limits = { maxBytes: maxUpload, ...definedMembers({ maxStepBytes: maxStep }) };
  const uploads = inbox === undefined ? undefined : await openServedUploads(sluice, inbox, limits);
  const bounds = { maxTotalBytes: maxTotal, isShared: true };
  const attachSaveTool =
    saveTo === undefined ? undefined : await openSaveTool(sluice, saveTo, bounds);
  return {
    sluice,
    uploads,
    create() {
      const mcp = new McpServer({ name: "sluice", version });
      sluice.attach(mcp, definedMembers({ tools: tools || undefined }));
      attachSaveTool?.(mcp);
      return uploads?.attach(mcp) ?? mcp;
    },
  };
}
