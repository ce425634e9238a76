import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import type { Sluice } from "@sluice/server";
import { problemOf, tagOf } from "@sluice/server/transport";
import { headerReader } from "../endpoint/web-request.ts";
import { toResponse } from "../endpoint/web-response.ts";

/** What becomes of the opening or the end of a session. */
interface SessionAdmission {
  /** The answer where there were too many. */
  readonly refused?: Response;
  /** The share that the memory of the session counts in; empty for callers without verified credentials. */
  readonly owner: string;
}

/**
 * Counts the opening or the end of a session in `limits.requests`.
 * A caller that cannot be identified counts as anonymous: the handler decides what it may do.
 */
export async function admitSessionRequest(
  { host }: Sluice,
  request: Request,
  authInfo: McpHandlerRequestOptions["authInfo"],
): Promise<SessionAdmission> {
  const { tag, owner } = await identified(host, request, authInfo);
  owners.set(request, owner);
  try {
    await host.usage.admit(tag, "request");
    return { owner };
  } catch (error) {
    if (SluiceError.is(error)) return { owner, refused: toResponse(problemOf(error)) };
    throw error;
  }
}

const owners = new WeakMap<Request, string>();

/** The share that other layers count their memory of a session in which this request opened; empty where none is known. */
export function sessionOwnerOf(request: Request): string {
  return owners.get(request) ?? "";
}

/** The session is no part of it: each invented id would have limits of its own. */
async function identified(
  host: Sluice["host"],
  request: Request,
  authInfo: McpHandlerRequestOptions["authInfo"],
): Promise<{ readonly tag: string | undefined; readonly owner: string }> {
  try {
    const identity = await host.identify({ authInfo, header: headerReader(request) });
    return { tag: tagOf(identity.principal), owner: identity.owner ?? "" };
  } catch {
    return { tag: undefined, owner: "" };
  }
}
