import type { McpServer } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { definedMembers, trueFileName } from "@sluice/core/internal";
import type { Caller } from "../access/principal.ts";
import type { IdentifiedCall, ResourceCalls } from "../calls/resource-calls.ts";
import type { AnswersFor } from "../calls/resource-owner.ts";
import { ensureReadScopes } from "../calls/sdk-handlers.ts";
import { callInV2, type AnyCall } from "../calls/sdk-v1.ts";
import { advised, toolError } from "../faults/advice.ts";
import type { Mounts } from "../storage/mounts.ts";
import {
  ensureLinkTerms,
  type LinkDisposition,
  type LinkRules,
  type LinkUse,
} from "./grant-options.ts";
import type { Grants } from "./grants.ts";

/** How a link is made; what is left out is as `links` of the Sluice says. */
export interface LinkOptions {
  readonly use?: LinkUse;
  /** Life in milliseconds, from 1,000 to `links.maxTtlMs`. Default: `links.ttlMs`. Never longer than the access token of the caller. */
  readonly ttlMs?: number;
  /** Default `attachment`. Types that a browser may run, such as HTML, are never shown. */
  readonly disposition?: LinkDisposition;
}

/** The caller that the link is for: of a tool, or of any other request, as its transport saw it. */
export type LinkCaller =
  | AnyCall
  | { readonly caller: Caller; readonly signal?: AbortSignal | undefined };

/** A link to one version of a resource, and what to say of it. */
export interface IssuedLink {
  /** A secret, until it expires: every holder gets the bytes. */
  readonly url: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  /** Names it in audit records and in `revoke`. */
  readonly id: string;
  readonly use: LinkUse;
  readonly resourceUri: string;
  /** File name. */
  readonly name: string;
  readonly mimeType: string;
  /** Bytes. Absent if storage does not know it. */
  readonly size?: number;
  /** Lower-case hex. Absent if storage does not know it. */
  readonly sha256?: string;
}

/** Makes the link to a resource. */
export type CreateLink = (uri: string, options: LinkCaller & LinkOptions) => Promise<IssuedLink>;

interface LinkParts {
  readonly calls: ResourceCalls;
  readonly mounts: Mounts;
  /** `undefined` if the author wants no links. */
  readonly grants: Grants | undefined;
  readonly rules: LinkRules;
  /** The test for resources of this Sluice on a server; a `TypeError` for a server without them. */
  readonly isOursOn: (mcp: McpServer) => AnswersFor;
  readonly onError: (error: unknown) => void;
}

/**
 * Makes a link to a resource. Order: identity → rate → key → access → scopes → describe → mint → record. An error has a
 * message that a tool may let through.
 */
export async function createLink(
  parts: LinkParts,
  uri: string,
  given: LinkCaller & LinkOptions,
): Promise<IssuedLink> {
  const { calls, isOursOn, onError } = parts;
  if (typeof (given as typeof given | undefined) !== "object")
    throw new TypeError(
      "sluice.link: also pass { mcp, ctx }, the server and the context of the tool, or { caller }",
    );
  const call = "caller" in given ? given : callInV2(given);
  const { ttlMs, use } = given;
  ensureLinkTerms(definedMembers({ ttlMs, use }), parts.rules);
  const counted = { action: "link", uri, kind: "request" } as const;
  try {
    if ("caller" in call) {
      const { caller, signal } = call;
      return await calls.answerCaller({ ...counted, caller, signal }, (work) =>
        mint(parts, { uri, work, signal, settings: given }),
      );
    }
    const { mcp, ctx } = call;
    const { signal } = ctx.mcpReq;
    return await calls.answer({ ...counted, mcp, ctx }, async (work) => {
      const isOurs = isOursOn(mcp);
      const ensureOurs = async (spelling: string): Promise<void> => {
        await ensureReadScopes(mcp, ctx, spelling);
        if (!(await isOurs(spelling, ctx)))
          throw new SluiceError(
            "not_found",
            "sluice: link: resources/read of this URI is answered by the server's author",
          );
      };
      return mint(parts, { uri, work, signal, settings: given, ensureOurs });
    });
  } catch (error) {
    throw toolError(error, { about: uri, onError });
  }
}

interface LinkWork {
  readonly uri: string;
  readonly work: IdentifiedCall;
  readonly signal: AbortSignal | undefined;
  readonly settings: LinkOptions;
  /** Throws for a spelling of the URI that the server's author has, or that needs further scopes. */
  readonly ensureOurs?: (spelling: string) => Promise<void>;
}

async function mint(
  { mounts, grants }: LinkParts,
  { uri, work, signal, settings, ensureOurs }: LinkWork,
): Promise<{ answer: IssuedLink; ending: "handled" }> {
  const { identity, principal, entry } = work;
  if (!grants) throw advised("unsupported", "links are off; pass links: true to createSluice");
  const { mount, key, name } = mounts.placeFor(uri, principal);
  const resourceUri = mount.mapper.toUri(key);
  const storage = await mount.storageAccess.authorize({ principal, key, action: "stream" });
  // the SDK compares spellings: another spelling must not bypass what the author registered
  for (const spelling of new Set([resourceUri, uri])) await ensureOurs?.(spelling);
  const info = await storage.describe(key, definedMembers({ signal }));
  const mimeType = await storage.typeOf(info, definedMembers({ signal }));
  const link = await grants.mintLink(identity, { ...settings, name, etag: info.etag });
  if (!link) throw new SluiceError("unauthenticated", "sluice: link: no link for the anonymous");
  entry.facts.grant = link.id;
  entry.facts.mode = "link";
  await entry.conclude("issued");
  const { url, expiresAt, id, use } = link;
  const { size, digests } = info;
  const described = { url, expiresAt, id, use, resourceUri, name: trueFileName(key), mimeType };
  return {
    answer: { ...described, ...definedMembers({ size, sha256: digests?.sha256 }) },
    ending: "handled",
  };
}
