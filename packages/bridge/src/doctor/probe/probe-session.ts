import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { EXTENSION_ID } from "@sluice/core/wire";
import { parseHttpDate } from "@sluice/core";
import { Agent, request } from "undici";
import { connect as connectTls } from "node:tls";
import type { Evidence, SeenCertificate } from "../evidence.ts";
import { codesOf } from "../fault-codes.ts";
import { answerMs, type Visit } from "./visit.ts";

/** Agrees on a session with the server, as every client does. */
export async function probeSession(visit: Visit): Promise<void> {
  const { client, evidence, fetch, headers, signal } = visit;
  const transport = new StreamableHTTPClientTransport(evidence.endpoint, {
    fetch,
    requestInit: { headers: { ...headers } },
  });
  try {
    await client.connect(transport, { signal, timeout: answerMs });
  } catch (error) {
    evidence.sessionFault = error;
    signal.throwIfAborted();
  }
  evidence.clockAheadMs = clockOf(evidence);
  if (evidence.sessionFault !== undefined) {
    if (evidence.endpoint.protocol === "https:" && codesOf(evidence.exchanges[0]?.fault).length > 0)
      evidence.certificate = await readCertificate(evidence.endpoint, signal).catch(
        () => undefined,
      );
    return;
  }
  const capabilities = client.getServerCapabilities() ?? {};
  const loose = capabilities as { readonly resourceStreaming?: unknown };
  evidence.server = {
    name: client.getServerVersion()?.name,
    revision: client.getNegotiatedProtocolVersion(),
    hasResources: capabilities.resources !== undefined,
    hasStreaming:
      loose.resourceStreaming !== undefined ||
      capabilities.extensions?.[EXTENSION_ID] !== undefined,
  };
}

/** How far the server's clock is ahead, by the header `Date` of the newest answer. */
function clockOf({ exchanges }: Evidence): number | undefined {
  const { headers } = exchanges.findLast(({ status }) => status !== undefined) ?? {};
  const date = parseHttpDate(headers?.get("date") ?? "", Date.now());
  if (date === undefined) return undefined;
  // what a cache kept is as old as it says (RFC 9111 section 5.1)
  const ageMs = Number(headers?.get("age") ?? 0) * 1_000;
  return date + (Number.isFinite(ageMs) ? ageMs : 0) - Date.now();
}

/** Looks at a certificate that is not trusted. Nothing is sent but a GET of `/` without credentials. */
async function readCertificate(endpoint: URL, signal: AbortSignal): Promise<SeenCertificate> {
  const host = endpoint.hostname.replace(/^\[|\]$/g, "");
  const port = endpoint.port === "" ? 443 : Number(endpoint.port);
  const certificate = await new Promise<{ valid_from: string; valid_to: string }>(
    (resolve, reject) => {
      const socket = connectTls({
        host,
        port,
        servername: nameFor(host),
        rejectUnauthorized: false,
      });
      socket.setTimeout(answerMs, () => socket.destroy(new Error("timeout")));
      const onAbort = (): void => void socket.destroy(new Error("aborted"));
      signal.addEventListener("abort", onAbort, { once: true });
      socket.once("close", () => {
        signal.removeEventListener("abort", onAbort);
        reject(new Error("closed"));
      });
      socket.once("error", reject).once("secureConnect", () => {
        resolve(socket.getPeerCertificate());
        socket.destroy();
      });
    },
  );
  return {
    from: Date.parse(certificate.valid_from),
    to: Date.parse(certificate.valid_to),
    serverTime: await readTime(endpoint, signal).catch(() => undefined),
  };
}

/** An address is no name (RFC 6066 section 3). */
function nameFor(host: string): string {
  return /^[\d.]+$|:/.test(host) ? "" : host;
}

async function readTime(endpoint: URL, signal: AbortSignal): Promise<number | undefined> {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false, timeout: answerMs } });
  try {
    const answer = await request(endpoint.origin, { dispatcher, signal, headersTimeout: answerMs });
    answer.body.on("error", () => {}).destroy();
    return parseHttpDate(String(answer.headers["date"] ?? ""), Date.now());
  } finally {
    await dispatcher.destroy();
  }
}
