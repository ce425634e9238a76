import { SluiceError, type ByteFlow } from "@sluice/core";
import {
  EXTENSION_ID,
  lesserTreeBounds,
  maxTreeFileBytes,
  TREE_METHOD,
  TREE_TYPE,
  treeBounds,
  treeBoundsIn,
  type TreeBounds,
} from "@sluice/core/internal";
import type { RequestingClient, StreamCall } from "../calls/stream-calls.ts";
import { requestBytes } from "../download/request-grant.ts";
import type { StreamSettings } from "../download/stream-options.ts";

/** What an SDK client knows of its server. */
interface KnowingClient {
  getServerCapabilities?(): { readonly extensions?: Readonly<Record<string, unknown>> } | undefined;
}

/**
 * The bounds of one call for many files: the lesser ones of the server's and of ours. `undefined` for a server that does not
 * declare any, or a client that cannot tell.
 */
export function boundsFor(client: RequestingClient): TreeBounds | undefined {
  const { extensions } = (client as KnowingClient).getServerCapabilities?.() ?? {};
  const serverBounds = treeBoundsIn(extensions?.[EXTENSION_ID]);
  return serverBounds && lesserTreeBounds(serverBounds, treeBounds);
}

/** The response to a call for many files. */
export interface TreeAnswer {
  readonly body: ByteFlow;
  /** Origin of the MCP server. */
  readonly origin: string;
}

/** The largest file that a call asks for, in bytes. */
export function maxFileBytesOf({ maxStreamBytes = Infinity }: StreamSettings): number {
  return Math.min(maxStreamBytes, maxTreeFileBytes);
}

/** Asks for many files in one response. Rejects as `streamResource` does, with `unsupported` if the server sends none. */
export async function requestTree(
  client: RequestingClient,
  uris: readonly string[],
  settings: StreamSettings,
  bounds: TreeBounds,
): Promise<TreeAnswer> {
  const { signal, timeouts } = settings;
  const call: StreamCall = {
    method: TREE_METHOD,
    bytesType: TREE_TYPE,
    uri: uris[0]!,
    streaming: { maxStreamBytes: maxFileBytesOf(settings), tree: bounds },
    connectMs: timeouts.connectMs,
    headersMs: timeouts.headersMs,
    signal,
  };
  await requestBytes(client, call, { uris });
  const { direct, failure, credentials } = call.answer ?? {};
  if (failure) throw failure;
  if (!direct || !credentials)
    throw new SluiceError("unsupported", "client: the server sends no files in one response");
  return { body: direct.body, origin: credentials.endpoint.origin };
}
