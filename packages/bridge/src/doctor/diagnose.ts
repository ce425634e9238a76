import { Client } from "@modelcontextprotocol/client";
import { ensureTrustedOrigins, streamingCapabilities } from "@sluice/client/internal";
import type { FetchLike, Secret } from "@sluice/core";
import { bearerOf, definedMembers } from "@sluice/core/internal";
import { fetch as undiciFetch } from "undici";
import { readServerUrl } from "../upstream/http-upstream.ts";
import {
  checkAccess,
  checkCapability,
  checkEndpoint,
  checkMcpHeaders,
  checkRedirect,
  checkServer,
  checkSignIn,
} from "./checks/answer-checks.ts";
import {
  checkBodyCap,
  checkBuffering,
  checkChanged,
  checkCut,
  checkDirect,
  checkDownload,
  checkDownloadCut,
  checkLink,
  checkPublicUrl,
  checkRange,
} from "./checks/bytes-checks.ts";
import {
  checkCertificate,
  checkClock,
  checkConnection,
  checkName,
  checkRenewal,
} from "./checks/reach-checks.ts";
import type { Check, Evidence, SeenServer } from "./evidence.ts";
import type { TransferFinding } from "./transfer-finding.ts";
import { ByteBudget, watchedFetch } from "./probe/watched-fetch.ts";
import { probeBody, probeSession, probeCut, probeEvents } from "./probe/probe-session.ts";
import {
  probeDirect,
  probeGrant,
  probeLink,
  probeRange,
  probeTools,
  probeWhole,
} from "./probe/probe-bytes.ts";
import { pinnedConnections, type Visit } from "./probe/visit.ts";

/** Options of {@link diagnose}. */
export interface DiagnoseOptions {
  /** Bearer token of every request, or what gets one: it is asked once. Default: none. */
  readonly token?: Secret | undefined;
  /** Headers of every request. Default: none. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Origins beside the server's own that bytes may come from. Default: none. */
  readonly trustedOrigins?: readonly string[] | undefined;
  /** Resource whose transfer failed. Default: one of the server's first page. */
  readonly uri?: string | undefined;
  /** What failed: nothing else is looked at. Default: both. */
  readonly direction?: "download" | "upload" | undefined;
  /** Milliseconds for everything. What was found until then is the result. Default: 30 s, or 25 s and `watchMs`. */
  readonly timeoutMs?: number | undefined;
  /** Milliseconds for which an open stream is watched. Default: 5 s. */
  readonly watchMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What a diagnosis saw. */
export interface Diagnosis {
  /** Absent if there was no session. */
  readonly server?: SeenServer | undefined;
  /** What stands in the way, and none that another one explains. */
  readonly findings: readonly TransferFinding[];
  /** False where a finding, or the time, left something that was not looked at. */
  readonly isComplete: boolean;
}

/** A probe, and the checks of what it saw: the first that finds something explains the others. */
interface Stage {
  readonly probe?: (visit: Visit) => Promise<void>;
  readonly checks: readonly Check[];
  /** What comes after does not depend on it. */
  readonly goesOn?: true;
  /** The only direction that it concerns; `neither`: it explains no transfer that failed. */
  readonly direction?: "download" | "upload" | "neither";
}

const stages: readonly Stage[] = [
  {
    probe: probeSession,
    // a wrong clock is why a token or a certificate is refused, and the refusal is told beside it
    checks: [checkClock],
    goesOn: true,
  },
  {
    checks: [
      checkName,
      checkCertificate,
      checkRedirect,
      checkMcpHeaders,
      checkSignIn,
      checkAccess,
      checkServer,
      checkConnection,
      checkEndpoint,
    ],
  },
  { checks: [checkRenewal], goesOn: true, direction: "neither" },
  { checks: [checkCapability], direction: "download" },
  { probe: probeGrant, checks: [checkPublicUrl], direction: "download" },
  { probe: probeDirect, checks: [checkPublicUrl, checkDirect], direction: "download" },
  {
    probe: probeWhole,
    checks: [checkDownload, checkDownloadCut, checkChanged],
    direction: "download",
  },
  {
    probe: probeRange,
    checks: [checkRange, checkBuffering],
    goesOn: true,
    direction: "download",
  },
  { probe: probeTools, checks: [], direction: "neither" },
  { probe: probeLink, checks: [checkLink], goesOn: true, direction: "neither" },
  { probe: probeBody, checks: [checkBodyCap], goesOn: true, direction: "upload" },
  { probe: probeEvents, checks: [checkBuffering], goesOn: true },
  { probe: probeCut, checks: [checkCut], goesOn: true },
];

/**
 * Looks for what stands between this machine and the bytes of the server at `endpoint`, as `diagnose` does, and says what it
 * saw of the server.
 */
export async function examine(
  endpoint: string | URL,
  options: DiagnoseOptions = {},
): Promise<Diagnosis> {
  const { token, headers = {}, trustedOrigins = [], watchMs = 5_000, signal } = options;
  const { timeoutMs = Math.max(30_000, 25_000 + watchMs) } = options;
  const url = readServerUrl("doctor", { endpoint, headers, token });
  ensureTrustedOrigins(trustedOrigins);
  const authorization = await bearerOf(token);
  const sentHeaders = { ...headers, ...definedMembers({ authorization }) };
  const has = (name: string): boolean =>
    Object.keys(sentHeaders).some((header) => header.toLowerCase() === name);
  const evidence: Evidence = {
    endpoint: url,
    hasToken: has("authorization"),
    hasOrigin: has("origin"),
    exchanges: [],
  };
  const deadline = AbortSignal.timeout(timeoutMs);
  const stop = new AbortController();
  const ends = [deadline, stop.signal];
  const dispatcher = pinnedConnections(({ valid_from, valid_to }) => {
    evidence.certificate ??= { from: Date.parse(valid_from), to: Date.parse(valid_to) };
  });
  // its types are those of the package, not of the platform
  const fetch: FetchLike = (input, init) => undiciFetch(input, { ...(init as object), dispatcher });
  const budget = new ByteBudget(2 ** 20);
  const end = AbortSignal.any(signal ? [...ends, signal] : ends);
  const watched = watchedFetch(fetch, evidence.exchanges, budget);
  const visit: Visit = {
    evidence,
    client: new Client(
      { name: "sluice-doctor", version: "1" },
      {
        capabilities: streamingCapabilities({ prefer: ["downloadUrl"] }),
        versionNegotiation: { mode: "auto" },
      },
    ),
    dispatcher,
    // the SDK does not pass its signal on while it connects
    fetch: (input, init) =>
      watched(input, {
        ...init,
        signal: AbortSignal.any(init?.signal ? [init.signal, end] : [end]),
      }),
    headers: sentHeaders,
    trustedOrigins,
    uri: options.uri,
    watchMs,
    direction: options.direction,
    budget,
    signal: end,
  };
  const findings: TransferFinding[] = [];
  let isComplete = false;
  try {
    isComplete = await runStages(visit, findings);
  } catch (error) {
    signal?.throwIfAborted();
    if (!deadline.aborted) throw error;
    if (findings.length === 0) findings.push(slow(evidence, timeoutMs));
  } finally {
    await close(visit, fetch);
    stop.abort(new Error("done"));
    await dispatcher.destroy();
  }
  return { server: evidence.server, findings, isComplete };
}

/**
 * Looks for what stands between this machine and the bytes of the server at `endpoint`: the causes, none of which another
 * one explains. Changes nothing there, downloads at most 1 MiB, and follows no redirect. Rejects with
 * `invalid_argument`, or the abort's reason.
 */
export async function diagnose(
  endpoint: string | URL,
  options: DiagnoseOptions = {},
): Promise<TransferFinding[]> {
  const { findings } = await examine(endpoint, options);
  return [...findings];
}

/** False where a finding ended it before the last stage. */
async function runStages(visit: Visit, findings: TransferFinding[]): Promise<boolean> {
  const { evidence, direction } = visit;
  for (const stage of stages) {
    if (direction && stage.direction && stage.direction !== direction) continue;
    const { probe, checks, goesOn } = stage;
    await probe?.(visit);
    const finding = firstOf(checks, evidence);
    if (!finding) continue;
    if (!findings.some(({ cause }) => cause === finding.cause)) findings.push(finding);
    if (!goesOn) return false;
  }
  return true;
}

function firstOf(checks: readonly Check[], evidence: Evidence): TransferFinding | undefined {
  for (const check of checks) {
    const finding = check(evidence);
    if (finding) return finding;
  }
  return undefined;
}

function slow({ endpoint }: Evidence, timeoutMs: number): TransferFinding {
  return {
    cause: "connection",
    message: `${endpoint.host} did not finish within ${Math.round(timeoutMs / 1_000)} s: check its load, and that no firewall stands between.`,
  };
}

/** Milliseconds to say goodbye in. */
const goodbyeMs = 1_000;

/** Ends a session that was begun: nothing stays at the server. */
async function close({ client, evidence, headers }: Visit, fetch: FetchLike): Promise<void> {
  const { sessionId } = (client.transport ?? {}) as { readonly sessionId?: string };
  if (sessionId !== undefined)
    await fetch(evidence.endpoint, {
      method: "DELETE",
      headers: { ...headers, "mcp-session-id": sessionId },
      signal: AbortSignal.timeout(goodbyeMs),
    }).catch(() => {});
  await client.close();
}
