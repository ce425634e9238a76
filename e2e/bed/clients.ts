import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { streamingCapabilities, withStreaming } from "@sluice/client/internal";

/** How a test connects. */
export interface ConnectOptions {
  /** Bearer token. */
  readonly token?: string;
  /** Declared `maxStreamSize` in bytes. */
  readonly maxStreamSize?: number;
  /** The fetch below the middleware. */
  readonly fetch?: typeof fetch;
  readonly headers?: Record<string, string>;
  /** The middleware was forgotten; the capabilities are there. */
  readonly forgetsFetch?: boolean;
}

const info = { name: "test", version: "1.0.0" };

function wiring(url: string, official: boolean, options: ConnectOptions) {
  const { token, maxStreamSize, fetch, headers, forgetsFetch = official } = options;
  return {
    url: new URL(url),
    transport: {
      ...(forgetsFetch ? fetch && { fetch } : { fetch: withStreaming(fetch) }),
      requestInit: {
        headers: { ...headers, ...(token !== undefined && { authorization: `Bearer ${token}` }) },
      },
    },
    capabilities: official
      ? {}
      : streamingCapabilities(maxStreamSize === undefined ? {} : { maxStreamBytes: maxStreamSize }),
  };
}

async function connectV2(
  mode: "auto" | "legacy",
  url: string,
  official: boolean,
  options: ConnectOptions,
): Promise<ClientV2> {
  const { transport, capabilities, url: endpoint } = wiring(url, official, options);
  const client = new ClientV2(info, { capabilities, versionNegotiation: { mode } });
  await client.connect(new TransportV2(endpoint, transport));
  return client;
}

async function connectV1(
  url: string,
  official: boolean,
  options: ConnectOptions,
): Promise<ClientV2> {
  const { transport, capabilities, url: endpoint } = wiring(url, official, options);
  const client = new ClientV1(info, { capabilities });
  await client.connect(new TransportV1(endpoint, transport));
  // the calls of the tests are the same in both, their types are not
  return client as unknown as ClientV2;
}

/** The SDK clients in the field: v2 in both eras and v1, which knows the legacy one only. */
export const sdks = {
  "SDK v2, modern": connectV2.bind(undefined, "auto"),
  "SDK v2, legacy": connectV2.bind(undefined, "legacy"),
  "SDK v1": connectV1,
} as const;

export type SdkName = keyof typeof sdks;
export const sdkNames = Object.keys(sdks) as SdkName[];

/** A client with Sluice's middleware and capabilities. */
export function connect(
  sdk: SdkName,
  url: string,
  options: ConnectOptions = {},
): Promise<ClientV2> {
  return sdks[sdk](url, false, options);
}

/** A client as its SDK ships it, which has never heard of Sluice. */
export function connectOfficial(
  sdk: SdkName,
  url: string,
  options: ConnectOptions = {},
): Promise<ClientV2> {
  return sdks[sdk](url, true, options);
}
