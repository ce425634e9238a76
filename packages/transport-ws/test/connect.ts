import { Client as ClientV2 } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { streamingCapabilities } from "@sluice/client/internal";
import {
  createWebSocketTransport,
  type WebSocketClientTransport,
  type NodeWebSocketTransportOptions,
} from "@sluice/transport-ws/client";
import { onTestFinished } from "vitest";

const info = { name: "test", version: "1.0.0" };

/** The SDK clients in the field. Their calls are the same, their types are not. */
const sdks = {
  "SDK v2, modern": (): ClientV2 =>
    new ClientV2(info, {
      capabilities: streamingCapabilities(),
      versionNegotiation: { mode: "auto", probe: { timeoutMs: 2_000 } },
    }),
  "SDK v2, legacy": (): ClientV2 => new ClientV2(info, { capabilities: streamingCapabilities() }),
  "SDK v1": (): ClientV2 =>
    new ClientV1(info, { capabilities: streamingCapabilities() }) as unknown as ClientV2,
} as const;

export type SdkName = keyof typeof sdks;
export const sdkNames = Object.keys(sdks) as SdkName[];

/** A connected client, closed when the test ends. */
export async function connect(
  sdk: SdkName,
  url: string,
  options: NodeWebSocketTransportOptions = {},
): Promise<{ client: ClientV2; transport: WebSocketClientTransport }> {
  const transport = createWebSocketTransport(url, options);
  const client = sdks[sdk]();
  await client.connect(transport);
  onTestFinished(() => client.close());
  return { client, transport };
}
