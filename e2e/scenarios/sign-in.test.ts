import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import {
  Client as ClientV2,
  ClientCredentialsProvider as SignInV2,
  StreamableHTTPClientTransport as TransportV2,
} from "@modelcontextprotocol/client";
import { ClientCredentialsProvider as SignInV1 } from "@modelcontextprotocol/sdk/client/auth-extensions.js";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { type McpFetchHandler } from "@sluice/transport-http";
import { createSessions, withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler, type NodeHandlerOptions } from "@sluice/transport-http/node";
import { expect, onTestFinished, test } from "vitest";
import { sdkNames, type SdkName } from "../bed/clients.ts";
import { listen } from "../bed/listen.ts";
import { openOwnSite } from "../bed/own-transports.ts";

const token = "signed-in";

const authenticate: NonNullable<NodeHandlerOptions["authenticate"]> = (req, _res, next) => {
  if (req.headers.authorization === `Bearer ${token}`)
    req.auth = { token, clientId: "c", scopes: [] };
  next();
};

/** An authorization server that signs every client in, by its metadata and its token endpoint. */
function signIn(origin: string, { url }: IncomingMessage): object | undefined {
  switch (url) {
    case "/.well-known/oauth-protected-resource/mcp":
      return { resource: `${origin}/mcp`, authorization_servers: [origin] };
    case "/.well-known/oauth-authorization-server":
      return {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        response_types_supported: ["code"],
        grant_types_supported: ["client_credentials"],
        token_endpoint_auth_methods_supported: ["client_secret_basic"],
      };
    case "/token":
      return { access_token: token, token_type: "Bearer", expires_in: 3_600 };
    default:
      return undefined;
  }
}

type Kind = "sessions" | "requests" | "an app's own transports";

/** A server that gives its files to callers with a token, and the note of its author to all. */
async function serve(kind: Kind): Promise<{ url: string; origin: string; signIns: () => number }> {
  let answer: RequestListener = () => {};
  let signIns = 0;
  const http = await listen(
    createServer((req, res) => {
      const told = signIn(http.origin, req);
      if (req.url === "/token") signIns += 1;
      if (!told) return answer(req, res);
      res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(told));
    }),
  );
  onTestFinished(() => http.close());
  const { origin } = http;
  const options = {
    storage: createMemoryBackend({ "a.txt": "hello" }),
    baseUri: "files://own/",
    endpoint: `${origin}/mcp`,
    keys: [generateKey()],
    resourceMetadataUrl: `${origin}/.well-known/oauth-protected-resource/mcp`,
    principal: ({ authInfo }: { authInfo?: { token: string } | undefined }) =>
      authInfo && { issuer: "own", subject: authInfo.token, clientId: "c" },
    onWarning: () => {},
  };
  const register = (mcp: { registerResource: McpServer["registerResource"] }): void => {
    mcp.registerResource("note", "note://open", {}, async () => ({
      contents: [{ uri: "note://open", text: "for everyone" }],
    }));
  };
  if (kind === "an app's own transports") {
    const site = await openOwnSite({
      kind: "McpServer of SDK v1",
      sluice: options,
      node: { authenticate },
      register: (mcp) => register(mcp as never),
    });
    onTestFinished(() => site[Symbol.asyncDispose]());
    answer = (req, res) => site.app(req, res);
  } else {
    const sluice = createSluice(options);
    const create = (): McpServer => {
      const mcp = new McpServer({ name: "own", version: "1" });
      register(mcp);
      return sluice.attach(mcp);
    };
    const mcp: McpFetchHandler =
      kind === "sessions" ? createSessions(create, sluice) : createMcpHandler(create);
    const handler = toNodeHandler(withSluice(mcp, sluice), { authenticate });
    answer = (req, res) => handler(req, res);
  }
  return { url: `${origin}/mcp`, origin, signIns: () => signIns };
}

const info = { name: "test", version: "1" };
const credentials = { clientId: "c", clientSecret: "s" };

async function connect(sdk: SdkName, url: string, origin: string): Promise<ClientV2> {
  if (sdk === "SDK v1") {
    const client = new ClientV1(info);
    const authProvider = new SignInV1({ ...credentials, expectedIssuer: origin });
    await client.connect(new TransportV1(new URL(url), { authProvider }));
    return client as unknown as ClientV2;
  }
  const mode = sdk === "SDK v2, modern" ? "auto" : "legacy";
  const client = new ClientV2(info, { versionNegotiation: { mode } });
  const authProvider = new SignInV2({ ...credentials, expectedIssuer: origin });
  await client.connect(new TransportV2(new URL(url), { authProvider }));
  return client;
}

const uri = "files://own/a.txt";

/** What is refused without a token, and what it gives with one. */
const calls: readonly (readonly [(client: ClientV2) => Promise<unknown>, unknown])[] = [
  [async (client) => (await client.listResources()).resources.length, 2],
  [async (client) => (await client.listResourceTemplates()).resourceTemplates.length, 1],
  [
    async (client) => (await client.readResource({ uri })).contents.map((each) => each.uri).join(),
    uri,
  ],
];

const kinds: readonly Kind[] = ["sessions", "requests", "an app's own transports"];

test.each(
  kinds.flatMap((kind) =>
    sdkNames
      .filter((sdk) => kind !== "an app's own transports" || sdk !== "SDK v2, modern")
      .map((sdk) => [sdk, kind] as const),
  ),
)(
  "a client of %s signs in when it is refused a list, a template or a content, with %s",
  async (sdk, kind) => {
    for (const [call, expected] of calls) {
      const { url, origin, signIns } = await serve(kind);
      const client = await connect(sdk, url, origin);
      const note = await client.readResource({ uri: "note://open" });
      expect([note.contents[0], signIns()]).toMatchObject([{ text: "for everyone" }, 0]);
      expect(await call(client)).toBe(expected);
      expect(signIns()).toBe(1);
      expect((await client.readResource({ uri })).contents).toMatchObject([{ text: "hello" }]);
      expect(signIns()).toBe(1);
      await client.close();
    }
  },
);
