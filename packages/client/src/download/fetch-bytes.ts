import { formatRange, parseMediaType, SluiceError, type ByteRange } from "@sluice/core";
import { RESOURCE_URI_HEADER } from "@sluice/core/wire";
import { acceptUrl, type AcceptedUrl } from "../trust/accept-url.ts";
import { checkAnswer, type CheckedAnswer } from "./check-answer.ts";
import type { HopAnswer } from "../net/exchange.ts";
import { hopHeaders, type HopDemand } from "../net/hop-headers.ts";
import { retryAfterOf } from "../net/http-error.ts";
import { ensureNamed, type Permit } from "./permit.ts";
import type { StreamSettings } from "./stream-options.ts";

/** An HTTP answer without bytes. */
export interface Refusal {
  readonly status: number;
  readonly retryAfterMs?: number;
  /** Nothing of Sluice answered, at an address of the MCP server's own origin. */
  readonly isUnrouted?: boolean;
}

/** A range to ask for, and the version it must belong to. */
export interface RangeDemand {
  readonly range: ByteRange;
  readonly etag?: string;
}

/**
 * GETs the bytes of a permit's target, whole or one range, following redirects hop by hop. Gives
 * the refusal for a status other than 200 and 206; rejects with `untrusted`, `protocol`,
 * `unavailable`, `timeout`, or the abort's reason.
 */
export async function fetchBytes(
  uri: string,
  permit: Permit & { readonly target: AcceptedUrl },
  settings: StreamSettings,
  demand: RangeDemand | undefined,
  signal: AbortSignal,
): Promise<CheckedAnswer | Refusal> {
  const visited = new Set<string>();
  let { target, hopsLeft } = permit;
  let redirected = permit.mode === "redirect";
  const wanted: HopDemand = {
    auth: permit.auth,
    sessionBound: permit.sessionBound,
    ...(demand && { range: formatRange(demand.range) }),
    ...(demand?.etag !== undefined && { etag: demand.etag }),
  };
  for (;;) {
    visited.add(target.url.href);
    const asked = performance.now();
    const answer = await sendHop(target, wanted, permit, settings, signal);
    const { status, headers } = answer;
    if (!redirectCodes.has(status)) {
      if (status !== 200 && status !== 206) return refuse(answer, target);
      try {
        const latencyMs = performance.now() - asked;
        const expectation = { uri, permit, target, redirected, ...(demand && { demand }) };
        const checked = checkAnswer(answer, expectation);
        return { ...checked, latencyMs };
      } catch (error) {
        answer.body.cancel(error);
        throw error;
      }
    }
    answer.body.cancel();
    if (target.standing === "own" && headers.has(RESOURCE_URI_HEADER)) {
      ensureNamed(uri, headers);
      redirected = true;
    }
    const location = headers.get("location") ?? "";
    target = acceptUrl(location, permit.policy, { base: target.url, redirect: true });
    if (visited.has(target.url.href))
      throw new SluiceError("protocol", "client: the server redirects in circles");
    if (hopsLeft-- === 0)
      throw new SluiceError(
        "protocol",
        `client: the server redirects more than ${permit.hopsLeft} times on the way to the bytes; have it name their address at once`,
      );
  }
}

const redirectCodes: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

async function sendHop(
  target: AcceptedUrl,
  demand: HopDemand,
  permit: Permit,
  settings: StreamSettings,
  signal: AbortSignal,
): Promise<HopAnswer> {
  const { headersMs, connectMs } = settings.timeouts;
  const late = new AbortController();
  const timer = setTimeout(
    () => late.abort(new SluiceError("timeout", "client: the server did not answer in time")),
    headersMs,
  );
  try {
    return await permit.exchange({
      method: "GET",
      url: target.url,
      headers: hopHeaders(target.url, demand, permit.credentials),
      signal: AbortSignal.any([signal, late.signal]),
      reach: target.standing === "public" ? "public" : permit.reach,
      connectMs,
    });
  } finally {
    clearTimeout(timer);
  }
}

function refuse(answer: HopAnswer, target: AcceptedUrl): Refusal {
  const retryAfterMs = retryAfterOf(answer);
  answer.body.cancel();
  // storage services say 403 for a signed URL whose time is over
  const status = answer.status === 403 && target.standing !== "own" ? 410 : answer.status;
  const essence = parseMediaType(answer.headers.get("content-type"))?.essence;
  const isUnrouted =
    status === 404 && target.standing === "own" && essence !== "application/problem+json";
  return { status, isUnrouted, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}
