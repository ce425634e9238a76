import {
  createKeyRing,
  createSealer,
  generateKey,
  type Principal,
  type Sealer,
} from "@sluice/core";
import { createSluice, type AuditRecord, type Sluice, type SluiceOptions } from "@sluice/server";
import type { RedeemRequest, Reply } from "@sluice/server/internal";
import { createMemoryBackend, type MemoryBackend } from "@sluice/storage";

export const endpoint = "https://mcp.example.com/mcp";
export const alice: Principal = {
  issuer: "https://id.example.com",
  subject: "alice",
  clientId: "app",
};

/** A Sluice over memory, the sealer that shares its keys, and what it reported. */
export interface House {
  readonly sluice: Sluice;
  readonly storage: MemoryBackend;
  readonly records: AuditRecord[];
  readonly errors: unknown[];
  readonly seal: Sealer["seal"];
  /** Redeems a token as whoever the `authorization` header names. */
  redeem(
    token: string,
    request?: Partial<Omit<RedeemRequest, "header">> & { headers?: Record<string, string> },
  ): Promise<Reply>;
}

/** Callers are who their `authorization` header says, as `issuer subject client`. */
export function createHouse(options: Partial<SluiceOptions> = {}): House {
  const keys = createKeyRing([generateKey()]);
  const storage = createMemoryBackend({ "a.bin": "0123456789", "b.bin": "other" });
  const records: AuditRecord[] = [];
  const errors: unknown[] = [];
  const sluice = createSluice({
    ...(options.mounts ? {} : { storage, baseUri: "files://demo/" }),
    endpoint,
    keys,
    principal: ({ header }) => {
      const [issuer, subject, clientId] = (header("authorization") ?? "").split(" ");
      return subject === undefined ? undefined : { issuer: issuer!, subject, clientId: clientId! };
    },
    audit: (record) => void records.push(record),
    onError: (error) => void errors.push(error),
    onWarning: () => {},
    ...options,
  } as SluiceOptions);
  const sealer = createSealer({ keys, audience: endpoint });
  return {
    sluice,
    storage,
    records,
    errors,
    seal: (purpose, terms) => sealer.seal(purpose, terms),
    redeem: (token, { headers = {}, ...request } = {}) =>
      sluice.host.redeem({ method: "GET", token, header: (name) => headers[name], ...request }),
  };
}

/** `authorization` of a principal. */
export function as({ issuer, subject, clientId }: Principal): Record<string, string> {
  return { authorization: `${issuer} ${subject} ${clientId}` };
}

/** A header of a reply by its lower-case name. */
export function headerOf(reply: Reply, name: string): string | undefined {
  const at = reply.headers.findIndex(
    (text, index) => index % 2 === 0 && text.toLowerCase() === name,
  );
  return at < 0 ? undefined : reply.headers[at + 1];
}

/** Reads a reply's bytes as text and ends its transfer, as a transport does. */
export async function bodyOf(reply: Reply): Promise<string> {
  if (!reply.transfer) return reply.text ?? "";
  const bytes = new Uint8Array(await new Response(reply.transfer.source.body).arrayBuffer());
  reply.transfer.end({ outcome: "complete", bytes: bytes.byteLength });
  return new TextDecoder().decode(bytes);
}
