import { connect as connectTls } from "node:tls";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  definedMembers,
  EXTENSION_ID,
  isInTime,
  parseHttpDate,
  sleep,
} from "@sluice/core/internal";
import { portOf, ruledOptions } from "@sluice/core/internal/node";
import { Agent, request } from "undici";
import {
  type Evidence,
  type SeenCertificate,
  codesOf,
  type SeenCap,
  isStream,
} from "../evidence.ts";
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
        ...lookupFor(endpoint),
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

/** Where the user says that the server is. A server that is not trusted is not shown the user's certificate. */
function lookupFor(endpoint: URL): Pick<ReturnType<typeof ruledOptions>, "lookup"> {
  const { lookup } = ruledOptions(endpoint.hostname, portOf(endpoint));
  return definedMembers({ lookup });
}

/** An address is not a name (RFC 6066 section 3). */
function nameFor(host: string): string {
  return /^[\d.]+$|:/.test(host) ? "" : host;
}

async function readTime(endpoint: URL, signal: AbortSignal): Promise<number | undefined> {
  const connect = { rejectUnauthorized: false, timeout: answerMs, ...lookupFor(endpoint) };
  const dispatcher = new Agent({ connect });
  try {
    const answer = await request(endpoint.origin, { dispatcher, signal, headersTimeout: answerMs });
    answer.body.on("error", () => {}).destroy();
    return parseHttpDate(String(answer.headers["date"] ?? ""), Date.now());
  } finally {
    await dispatcher.destroy();
  }
}

/** Bodies to try, in KiB. Servers take at least 100 kB, and nginx passes 1 MiB on. */
const triedKiB = [64, 256, 1_088, 2_048];

/** Messages are smaller: what refuses more is a finding where files come in. */
const largestMessageKiB = 256;

/** KiB of all bodies together. */
const maxKiB = 4_096;

/** Milliseconds that one body may be expected to take. */
const longestMs = 3_000;

/**
 * Sends larger and larger requests that change nothing, until one is refused; then looks for where that begins. What is
 * larger than messages goes to where uploads go: a proxy, and the reader of messages, may have other limits there.
 */
export async function probeBody(visit: Visit): Promise<void> {
  let leftKiB = maxKiB;
  let passedKiB = 0;
  let msOfOne = 0;
  const send = async (kib: number): Promise<SeenCap["answer"]> => {
    leftKiB -= kib;
    const startedAt = performance.now();
    const answer = await (kib > largestMessageKiB ? sendUpload : sendPadded)(kib, visit);
    msOfOne = (performance.now() - startedAt) / kib;
    return answer;
  };
  /** Halves the gap between what passes and what does not, to an eighth of the latter at most. */
  const narrow = async (cap: SeenCap): Promise<SeenCap> => {
    const between = Math.round((cap.passedKiB + cap.refusedKiB) / 2);
    if (cap.refusedKiB - cap.passedKiB < cap.refusedKiB / 8 || between > leftKiB) return cap;
    const answer = await send(between);
    if (isRefusal(answer, passedKiB === 0)) return narrow({ ...cap, refusedKiB: between, answer });
    return answer.fault === undefined ? narrow({ ...cap, passedKiB: between }) : cap;
  };
  for (const kib of triedKiB) {
    if (kib * msOfOne > longestMs || (kib > largestMessageKiB && !takesFiles(visit))) return;
    const answer = await send(kib);
    const isFirst = passedKiB === 0;
    if (isRefusal(answer, isFirst)) {
      visit.evidence.bodyCap = await narrow({ passedKiB, refusedKiB: kib, answer });
      return;
    }
    if (answer.fault !== undefined) return;
    passedKiB = kib;
  }
}

function takesFiles({ direction, evidence }: Visit): boolean {
  return direction === "upload" || evidence.tools?.takeFiles === true;
}

/** Small requests must pass; that larger ones do not is a finding where something in front says so. */
function isRefusal({ status, isOfServer, fault }: SeenCap["answer"], isSmall: boolean): boolean {
  return isSmall ? status === 413 || fault !== undefined : status === 413 && !isOfServer;
}

async function sendPadded(
  kib: number,
  { client, evidence, signal }: Visit,
): Promise<SeenCap["answer"]> {
  const before = evidence.exchanges.length;
  // the smallest answer that each revision has
  const method = client.getProtocolEra() === "legacy" ? "ping" : "server/discover";
  const params = { _meta: { "dev.sluice/padding": "x".repeat(kib * 1024) } };
  await client.request({ method, params }, { signal, timeout: answerMs }).catch(() => {});
  signal.throwIfAborted();
  const exchange = evidence.exchanges.slice(before).find(({ rpcMethod }) => rpcMethod === method);
  const { status, headers = new Headers(), fault } = exchange ?? {};
  return { status, isOfServer: isServer(headers), fault };
}

/** The slot does not exist: no server keeps a byte, and each answers. No credentials go there. */
async function sendUpload(
  kib: number,
  { dispatcher, evidence, signal }: Visit,
): Promise<SeenCap["answer"]> {
  const url = new URL(evidence.endpoint);
  url.pathname = `${url.pathname.replace(/\/$/, "")}/u/${"0".repeat(32)}`;
  const end = AbortSignal.any([signal, AbortSignal.timeout(answerMs)]);
  const headers = { "content-type": "application/octet-stream" };
  const upload = { dispatcher, method: "POST", headers, signal: end } as const;
  try {
    const answer = await request(url, { ...upload, body: Buffer.alloc(kib * 1024) });
    answer.body.on("error", () => {}).destroy();
    const type = String(answer.headers["content-type"] ?? "");
    const fields = new Headers({ "content-type": type });
    if (answer.headers["x-powered-by"] !== undefined) fields.set("x-powered-by", "1");
    return { status: answer.statusCode, isOfServer: isServer(fields), fault: undefined };
  } catch (fault) {
    signal.throwIfAborted();
    return { status: undefined, isOfServer: false, fault };
  }
}

function isServer(headers: Headers): boolean {
  return /\bjson\b/i.test(headers.get("content-type") ?? "") || headers.has("x-powered-by");
}

/** Milliseconds in which an open stream of events must show itself. */
const patienceMs = 3_000;

/** Opens a stream of events, twice where the first one stays silent. It stays open, for {@link probeCut}. */
export async function probeEvents(visit: Visit): Promise<void> {
  const { client, evidence } = visit;
  if (client.getProtocolEra() === "legacy") {
    evidence.isEventStreamHeld = !(await isOpened(visit));
    return;
  }
  if (await isAcknowledged(visit)) return;
  evidence.isEventStreamHeld = !(await isAcknowledged(visit));
}

/** The SDK opens one by itself, which answers at once, if only that there is none. */
async function isOpened({ evidence, signal }: Visit): Promise<boolean> {
  for (let waited = 0; waited < 2 * patienceMs; waited += paceMs) {
    await sleep(paceMs, signal);
    const getRequests = evidence.exchanges.filter(({ httpMethod }) => httpMethod === "GET");
    if (getRequests.every(({ status, fault }) => status !== undefined || fault !== undefined))
      return true;
  }
  return false;
}

/** Milliseconds from one look to the next. */
const paceMs = 50;

/** True when the stream begins, and when the server has none. */
async function isAcknowledged({ client, signal }: Visit): Promise<boolean> {
  const stop = new AbortController();
  const end = AbortSignal.any([signal, stop.signal]);
  const subscription = client.listen({ resourcesListChanged: true }, { signal: end });
  const isSettled = await isInTime(
    subscription.catch(() => {}),
    patienceMs,
    signal,
  );
  signal.throwIfAborted();
  if (!isSettled) stop.abort(new Error("silent"));
  return isSettled;
}

/** Waits until the stream of events has been open for a while. */
export async function probeCut({ evidence, watchMs, signal }: Visit): Promise<void> {
  for (let waited = 0; waited < watchMs; waited += paceMs) {
    const streams = evidence.exchanges.filter(isStream);
    if (streams.length === 0 || streams.some(({ fault }) => fault !== undefined)) return;
    await sleep(paceMs, signal);
  }
}
