import { createMcpHandler } from "@modelcontextprotocol/server";

/**
 * Gives the SDK's refusal of a request of 2026-07-28: of a wrong media type, envelope or revision, and of header
 * fields that are not those of the body. Undefined for a request that may be served.
 */
export async function refusalOf(
  request: Request,
  parsedBody: unknown,
): Promise<Response | undefined> {
  const response = await checker.fetch(request, { parsedBody });
  return checked.has(request) ? undefined : response;
}

const checked = new WeakSet<Request>();

/** It asks for a server when all is checked, and gets none. */
const checker = createMcpHandler(
  ({ requestInfo }) => {
    if (requestInfo) checked.add(requestInfo);
    throw new Error("the request was only checked");
  },
  { legacy: "reject" },
);
