// What a web page does with a server over WebSocket. The test that opens the page bundles this for it.
import { Client } from "@modelcontextprotocol/client";
import { streamResource } from "@sluice/client";
import { streamingCapabilities } from "@sluice/client/internal";
import { createWebSocketTransport } from "@sluice/transport-ws/client";

/** What a page is told about a server. */
export interface Visit {
  readonly url: string;
  readonly downloads: string;
  /** Goes with bound downloads; the WebSocket is opened with a ticket of the page's own server. */
  readonly token: string;
  readonly uri: string;
}

/** What it found there. */
export interface Found {
  readonly uris: readonly string[];
  readonly mode: string;
  readonly promised: string | undefined;
  readonly sha256: string;
}

async function ticket(): Promise<string> {
  const response = await fetch("/ticket", { method: "POST" });
  return response.text();
}

async function visit({ url, downloads, token, uri }: Visit): Promise<Found> {
  const client = new Client(
    { name: "page", version: "1.0.0" },
    { capabilities: streamingCapabilities(), versionNegotiation: { mode: "auto" } },
  );
  await client.connect(createWebSocketTransport(url, { ticket, token, downloads }));
  try {
    const { resources } = await client.listResources();
    const { mode, sha256: digest, body } = await streamResource(client, uri);
    const bytes = await new Response(body).arrayBuffer();
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const sha256 = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return { uris: resources.map((each) => each.uri), mode, promised: digest, sha256 };
  } finally {
    await client.close();
  }
}

/** For the test, which can call what is global. */
export interface PageGlobals {
  readonly visit: typeof visit;
}
Object.assign(globalThis, { visit } satisfies PageGlobals);
