import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createFileSender } from "@sluice/client/send";
import { z } from "zod";
import type { SdkName } from "./clients.ts";

/** What a test lets the user do. */
export interface SenderOptions extends Partial<Parameters<typeof createFileSender>[0]> {
  /** Bearer token. */
  readonly token?: string;
  readonly fetch?: typeof fetch;
}

const info = { name: "test", version: "1.0.0" };

/** Connects a client of an official SDK with our half of the uploads. */
export async function connectSender(
  sdk: SdkName,
  url: string,
  options: SenderOptions = {},
): Promise<ClientV2> {
  const { token, fetch, onFilesRequested = () => ({ action: "cancel" }), ...more } = options;
  const sender = createFileSender({ endpoint: url, onFilesRequested, ...more });
  const wiring = { fetch: sender.fetch(fetch), requestInit: { headers: bearer(token) } };
  if (sdk === "SDK v1") {
    const client = new ClientV1(info);
    sender.attach(client);
    await client.connect(new TransportV1(new URL(url), wiring));
    // the calls of the tests are the same in both, their types are not
    return client as unknown as ClientV2;
  }
  const client = new (sender.extend(ClientV2))(info, era(sdk));
  await client.connect(new TransportV2(new URL(url), wiring));
  return client;
}

/** A question as it comes over the wire. */
export interface Question {
  readonly mode?: string;
  readonly message: string;
  readonly url?: string;
  readonly requestedSchema: {
    readonly properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    readonly required: readonly string[];
  };
  readonly uploadEndpoints: Readonly<
    Record<string, { readonly url: string; readonly method: string; readonly uploadId: string }>
  >;
}

/** How a test's own client answers. */
export interface LiteralOptions {
  readonly token?: string;
  readonly capabilities?: object;
  readonly answer?: (question: Question) => unknown;
}

/**
 * Connects a client of an official SDK that knows of SEP-1306 what its text says and nothing else: the
 * answer is written by hand.
 */
export async function connectLiteral(
  sdk: SdkName,
  url: string,
  options: LiteralOptions = {},
): Promise<ClientV2> {
  const { token, answer = () => ({ action: "cancel" }) } = options;
  const { capabilities = { elicitation: { form: {}, url: {}, binary: {} } } } = options;
  const wiring = { requestInit: { headers: bearer(token) } };
  if (sdk === "SDK v1") {
    const client = new ClientV1(info, { capabilities });
    client.fallbackRequestHandler = async ({ params }) =>
      (await answer(params as unknown as Question)) as Record<string, unknown>;
    await client.connect(new TransportV1(new URL(url), wiring));
    return client as unknown as ClientV2;
  }
  const client = new LiteralClient(info, { capabilities, ...era(sdk) });
  if (!("elicitation" in capabilities)) {
    await client.connect(new TransportV2(new URL(url), wiring));
    return client;
  }
  client.setRequestHandler(
    "elicitation/create",
    { params: z.looseObject({ message: z.string() }) },
    async (params) => (await answer(params as unknown as Question)) as Record<string, unknown>,
  );
  await client.connect(new TransportV2(new URL(url), wiring));
  return client;
}

/** The SDK's own checks know no mode `binary`. */
class LiteralClient extends ClientV2 {
  // oxlint-disable-next-line no-underscore-dangle, typescript/no-explicit-any -- the SDK's hook
  protected override _wrapHandler(method: string, handler: any): any {
    // oxlint-disable-next-line no-underscore-dangle -- as above
    const wrapped = super._wrapHandler(method, handler);
    if (method !== "elicitation/create") return wrapped;
    return (request: { params?: { mode?: string } }, ctx: unknown) =>
      request.params?.mode === "binary"
        ? handler(request, ctx)
        : wrapped(request as never, ctx as never);
  }
}

/** Sends files as SEP-1306 §5 says: one form, each file in a field `file`. */
export async function postForm(
  url: string,
  files: readonly File[],
  token?: string,
): Promise<{ readonly status: number; readonly body: Record<string, unknown> }> {
  const form = new FormData();
  for (const file of files) form.append("file", file);
  const response = await fetch(url, { method: "POST", body: form, headers: bearer(token) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

function bearer(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

function era(sdk: SdkName) {
  const mode = sdk === "SDK v2, legacy" ? "legacy" : "auto";
  return { versionNegotiation: { mode } } as const;
}
