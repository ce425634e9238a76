/** An object of JSON, as it lies on the wire. */
export type Json = Record<string, unknown>;

/** One JSON-RPC 2.0 message. */
export interface Message {
  readonly jsonrpc: "2.0";
  readonly id?: number | string | null;
  readonly method?: string;
  readonly params?: Json;
  readonly result?: Json;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: Json };
}

/** The two revisions of the base protocol: with sessions, and without. */
export type Revision = "2025-11-25" | "2026-07-28";

export const revisions: readonly Revision[] = ["2025-11-25", "2026-07-28"];

const prefix = "io.modelcontextprotocol/";
const clientInfo = { name: "literal", version: "1.0.0" };

/** A request. Without sessions each one says what its client can do. */
export function requestOf(
  revision: Revision,
  id: number,
  method: string,
  params: Json,
  capabilities: Json,
): Message {
  if (revision === "2025-11-25") return { jsonrpc: "2.0", id, method, params };
  const _meta = {
    [`${prefix}protocolVersion`]: revision,
    [`${prefix}clientInfo`]: clientInfo,
    [`${prefix}clientCapabilities`]: capabilities,
  };
  return { jsonrpc: "2.0", id, method, params: { ...params, _meta } };
}

/** The first request of a client, whose answer has the server's capabilities. */
export function greeting(revision: Revision, capabilities: Json): { method: string; params: Json } {
  return revision === "2025-11-25"
    ? { method: "initialize", params: { protocolVersion: revision, capabilities, clientInfo } }
    : { method: "server/discover", params: {} };
}

/** The answer to that request. */
export function welcome(method: string, capabilities: Json): Json {
  const serverInfo = { name: "literal", version: "1.0.0" };
  return method === "initialize"
    ? { protocolVersion: "2025-11-25", capabilities, serverInfo }
    : {
        supportedVersions: ["2026-07-28"],
        capabilities,
        ttlMs: 0,
        cacheScope: "private",
        _meta: { [`${prefix}serverInfo`]: serverInfo },
      };
}

/** A result as the revision of its request has it. */
export function resultOf(request: Message, result: Json): Message {
  const stateless = (request.params?.["_meta"] as Json | undefined)?.[`${prefix}protocolVersion`];
  const body = stateless === undefined ? result : { resultType: "complete", ...result };
  return { jsonrpc: "2.0", id: request.id ?? null, result: body };
}

/** What a peer does against the text, with the sentence it breaks. */
export class Fault extends Error {
  override readonly name = "Fault";
}

/** Throws a `Fault` unless `holds`. */
export function must(holds: boolean, sentence: string): asserts holds {
  if (!holds) throw new Fault(sentence);
}
