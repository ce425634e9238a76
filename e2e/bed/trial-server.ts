import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { streamResource } from "@sluice/client";
import { streamingCapabilities, withStreaming } from "@sluice/client/internal";
import { formatKey, generateKey, type FetchLike } from "@sluice/core";
import type { RevisionKind } from "@sluice/core/internal";
import type { JWTPayload } from "jose";
import { inject } from "vitest";
import { freePort, untilAnswered } from "./listen.ts";
import { startTokenIssuer, type TokenIssuer } from "./token-issuer.ts";

const base = "hipaa://";

/** The official client with one user's access token. */
export interface TrialClient {
  readonly client: Client;
  /** From now on its token has these claims. */
  readonly become: (claims: JWTPayload) => Promise<void>;
  /** URIs of the resources that it is shown. */
  readonly list: () => Promise<string[]>;
  /** Streams a resource; gives its bytes and the download URL that they came from. */
  readonly stream: (uri: string) => Promise<{ readonly bytes: Buffer; readonly url: string }>;
}

/** The server of docs/guides/server/roles.md as a process, in a folder with data of trials. */
export interface TrialServer extends AsyncDisposable {
  readonly endpoint: string;
  readonly issuer: TokenIssuer;
  /** Path of its audit trail. */
  readonly auditFile: string;
  /** Path of the file behind a URI. */
  readonly pathOf: (uri: string) => string;
  readonly connect: (revision: RevisionKind, claims: JWTPayload) => Promise<TrialClient>;
}

/** Starts it over files, named by their URIs. */
export async function startTrialServer(
  files: Readonly<Record<string, string | Uint8Array>>,
): Promise<TrialServer> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-roles-"));
  const pathOf = (uri: string): string => join(folder, "trials", uri.slice(base.length));
  for (const [uri, content] of Object.entries(files)) {
    await mkdir(dirname(pathOf(uri)), { recursive: true });
    await writeFile(pathOf(uri), content);
  }
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}/mcp`;
  const issuer = await startTokenIssuer(endpoint);
  const server = spawn(process.execPath, [inject("programs")["e2e/examples/roles.ts"]!], {
    cwd: folder,
    env: {
      ...process.env,
      PORT: String(port),
      PUBLIC_URL: endpoint,
      ISSUER: issuer.issuer,
      SLUICE_KEYS: formatKey(generateKey()),
    },
    stdio: "inherit",
  });
  const ended = once(server, "exit");
  await untilAnswered(endpoint);
  return {
    endpoint,
    issuer,
    auditFile: join(folder, "audit.log"),
    pathOf,
    connect: (revision, claims) => connect({ endpoint, issuer }, revision, claims),
    async [Symbol.asyncDispose]() {
      server.kill();
      await ended;
      await issuer[Symbol.asyncDispose]();
      await rm(folder, { recursive: true });
    },
  };
}

async function connect(
  { endpoint, issuer }: Pick<TrialServer, "endpoint" | "issuer">,
  revision: RevisionKind,
  claims: JWTPayload,
): Promise<TrialClient> {
  let token = await issuer.sign(claims);
  let last = "";
  const fetching: FetchLike = (url, init) => {
    if (url.toString().includes("/streams/")) last = url.toString();
    return fetch(url, init);
  };
  const transport = new StreamableHTTPClientTransport(new URL(endpoint), {
    authProvider: { token: async () => token },
    fetch: withStreaming(fetching),
  });
  const client = new Client(
    { name: "desk", version: "1.0.0" },
    {
      capabilities: streamingCapabilities({ prefer: ["downloadUrl"] }),
      versionNegotiation: { mode: revision === "modern" ? "auto" : "legacy" },
    },
  );
  await client.connect(transport);
  return {
    client,
    become: async (other) => void (token = await issuer.sign(other)),
    list: async () => (await client.listResources()).resources.map(({ uri }) => uri),
    async stream(uri) {
      const chunks: Uint8Array[] = [];
      for await (const chunk of (await streamResource(client, uri)).body) chunks.push(chunk);
      return { bytes: Buffer.concat(chunks), url: last };
    },
  };
}
