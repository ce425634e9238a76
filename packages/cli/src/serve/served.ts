import { McpServer } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import { createSluice, type MountOptions, type Sluice } from "@sluice/server";
import type { AuditFile, KeyFile } from "@sluice/server/node";
import { createMemoryStores } from "@sluice/state";
import { version } from "../terminal/print.ts";
import { openSaveTool } from "../save/save-tool.ts";
import type { OpenMount } from "./open-mounts.ts";
import { limitsBy, serveState } from "./serve-limits.ts";
import { isPrivate, type ServeCommandOptions } from "./serve-options.ts";
import { auditOf } from "./serve-trail.ts";
import { openServedUploads, type ServedUploads } from "./serve-uploads.ts";
import type { Users } from "./users.ts";

/** What is served, before any transport. */
export interface Served {
  readonly sluice: Sluice;
  /** Makes a server for one request, session or connection. */
  readonly create: () => McpServer;
  readonly uploads: ServedUploads | undefined;
}

/** The parts that exist before a server can be made. */
interface ServedParts {
  readonly mounts: readonly OpenMount[];
  /** URL of the endpoint. */
  readonly endpoint: string;
  readonly trail: AuditFile | undefined;
  readonly keys: KeyFile | undefined;
  /** Absent if all callers are one user. */
  readonly users: Users | undefined;
}

const defaultMaxUpload = 2 ** 30;

/** Composes what the options ask for. */
export async function openServed(
  { mounts, endpoint, trail, keys, users }: ServedParts,
  options: ServeCommandOptions,
): Promise<Served> {
  const {
    token,
    limits = {},
    tools = true,
    uploads: inbox,
    maxUpload = defaultMaxUpload,
    maxStep,
    saveTo,
    maxTotal,
  } = options;
  const holder: Principal = { issuer: "sluice serve", subject: "token", clientId: "" };
  const isGuarded = (token !== undefined || users !== undefined) && !options.stdio;
  const sluice = createSluice({
    ...storagesOf(mounts),
    endpoint,
    keys: keys?.keys ?? "ephemeral",
    // one process: with a store of its own, links are short whatever the keys are
    stores: createMemoryStores(users ? {} : serveState),
    // about the ephemeral keys: one process whose URLs may end with it is the point
    onWarning() {},
    // without a token there is nothing to tell callers apart by, also not their sessions
    principal: users ? users.principalOf : () => (isGuarded ? holder : undefined),
    anonymous: !isGuarded,
    ...definedMembers({ access: users?.access, maxReadBytes: limits.maxRead }),
    // a public server without a token gives strangers no room in the store
    links: options.links ?? (isGuarded || isPrivate(options)),
    audit: auditOf(trail),
    limits: limitsBy(limits, users !== undefined),
  });
  const terms = { maxBytes: maxUpload, ...definedMembers({ maxStepBytes: maxStep }), users };
  const uploads = inbox === undefined ? undefined : await openServedUploads(sluice, inbox, terms);
  const bounds = {
    maxTotalBytes: maxTotal,
    isShared: true,
    ...definedMembers({ maySave: users?.mayUpload }),
  };
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

/** One storage keeps short names in its URLs; several are mounts. */
function storagesOf(mounts: readonly OpenMount[]) {
  const all = mounts.map(({ uri: baseUri, storage, delivery }): MountOptions => ({
    baseUri,
    storage,
    ...definedMembers({ delivery }),
    // where the operator did not ask for them, bytes come from this server
    ...(delivery === "redirect" ? { redirectOrigins: "storage" } : {}),
  }));
  const [first] = all;
  return all.length === 1 && first ? first : { mounts: all };
}
