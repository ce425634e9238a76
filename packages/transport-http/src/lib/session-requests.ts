import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { problemOf, tagOf, type Sluice } from "@sluice/server";
import { headerReader } from "./web-request.ts";
import { toResponse } from "./web-response.ts";

/**
 * Counts the opening or the end of a session in `limits.requests`; gives the refusal where there were too many.
 * A caller that cannot be identified counts as anonymous: the handler decides what it may do.
 */
export async function admitSessionRequest(
  { host }: Sluice,
  request: Request,
  authInfo: McpHandlerRequestOptions["authInfo"],
): Promise<Response | undefined> {
  try {
    await host.usage.admit(await tagOfCaller(host, request, authInfo), "request");
    return undefined;
  } catch (error) {
    if (SluiceError.is(error)) return toResponse(problemOf(error));
    throw error;
  }
}

/** The session is no part of it: each invented id would have limits of its own. */
async function tagOfCaller(
  host: Sluice["host"],
  request: Request,
  authInfo: McpHandlerRequestOptions["authInfo"],
): Promise<string | undefined> {
  try {
    const { principal } = await host.identify({ authInfo, header: headerReader(request) });
    return tagOf(principal);
  } catch {
    return undefined;
  }
}
