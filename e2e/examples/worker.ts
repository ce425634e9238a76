import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createHandler, type Handler } from "@sluice/transport-http";

// #region worker
interface Env {
  /** URL of the MCP endpoint, such as https://mcp.example.com/mcp. */
  readonly ENDPOINT: string;
  /** A key of `sluice keys new`: every instance needs the same. */
  readonly SLUICE_KEYS: string;
}

let handler: Handler | undefined;

function start(env: Env): Handler {
  const sluice = createSluice({
    storage: createMemoryBackend({ "hello.txt": "Hello from a Worker" }),
    baseUri: "files://demo/",
    endpoint: env.ENDPOINT,
    keys: env.SLUICE_KEYS,
    anonymous: true,
  });
  const create = () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }));
  // one Worker keeps no session for the next request
  return createHandler({ sluice, create, sessions: false });
}

export default {
  // Workers have neither settings nor random bytes while a module loads: the first request starts the server
  fetch: (request: Request, env: Env): Promise<Response> => (handler ??= start(env)).fetch(request),
};
// #endregion
