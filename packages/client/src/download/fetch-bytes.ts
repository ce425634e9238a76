import { SluiceError } from "@sluice/core";
import {
  definedMembers,
  formatRange,
  parseMediaType,
  RESOURCE_URI_HEADER,
} from "@sluice/core/internal";
import { acceptUrl, type AcceptedUrl } from "../trust/accept-url.ts";
import type { HopAnswer } from "../net/exchange.ts";
import { hopHeaders, type HopDemand } from "../net/request-headers.ts";
import { isRedirect, retryAfterOf } from "../net/http-status.ts";
import { unanswered, withDeadline } from "../net/timeouts.ts";
import { checkAnswer, ensureNamed, type CheckedAnswer, type RangeDemand } from "./check-answer.ts";
import type { DownloadGrant } from "./download-grant.ts";
import type { StreamSettings } from "./stream-options.ts";

/** An HTTP response without bytes. */
export interface RefusedDownload {
  readonly status: number;
  readonly retryAfterMs?: number;
  /** Nothing of Sluice answered, at an address of the MCP server's own origin. */
  readonly isUnrouted?: boolean;
}

/**
 * GETs the bytes of a grant's target, whole or one range, following redirects hop by hop. Gives
 * the refusal for a status other than 200 and 206; rejects with `untrusted`, `protocol`,
 * `unavailable`, `timeout`, or the abort's reason.
 */
export async function fetchBytes(
  uri: string,
  grant: DownloadGrant & { readonly target: AcceptedUrl },
  settings: StreamSettings,
  demand: RangeDemand | undefined,
  signal: AbortSignal,
): Promise<CheckedAnswer | RefusedDownload> {
  const visited = new Set<string>();
  let { target, hopsLeft } = grant;
  let redirected = grant.mode === "redirect";
  const hopDemand: HopDemand = {
    auth: grant.auth,
    sessionBound: grant.sessionBound,
    range: demand && formatRange(demand.range),
    etag: demand?.etag,
  };
  for (;;) {
    visited.add(target.url.href);
    const startedAt = performance.now();
    const answer = await sendHop(target, hopDemand, grant, settings, signal);
    const { status, headers } = answer;
    if (!isRedirect(status)) {
      if (status !== 200 && status !== 206) return refuse(answer, target);
      try {
        const latencyMs = performance.now() - startedAt;
        const checked = checkAnswer(answer, { uri, grant, target, redirected, demand });
        return { ...checked, latencyMs };
      } catch (error) {
        answer.body.cancel(error);
        throw error;
      }
    }
    answer.body.cancel();
    if (!grant.isLink && target.standing === "own" && headers.has(RESOURCE_URI_HEADER)) {
      ensureNamed(uri, headers);
      redirected = true;
    }
    const location = headers.get("location") ?? "";
    target = acceptUrl(location, grant.policy, { base: target.url, redirect: true });
    if (visited.has(target.url.href))
      throw new SluiceError("protocol", "client: the server redirects in circles");
    if (hopsLeft-- === 0)
      throw new SluiceError(
        "protocol",
        `client: the server redirects more than ${grant.hopsLeft} times; have it name the address of the bytes`,
      );
  }
}

function sendHop(
  target: AcceptedUrl,
  demand: HopDemand,
  grant: DownloadGrant,
  settings: StreamSettings,
  signal: AbortSignal,
): Promise<HopAnswer> {
  const { headersMs, connectMs } = settings.timeouts;
  return withDeadline([signal], headersMs, unanswered, (either) =>
    grant.exchange({
      method: "GET",
      url: target.url,
      headers: hopHeaders(target.url, demand, grant.credentials),
      signal: either,
      scope: target.standing === "public" ? "public" : grant.scope,
      connectMs,
    }),
  );
}

function refuse(answer: HopAnswer, target: AcceptedUrl): RefusedDownload {
  answer.body.cancel();
  // storage services answer 403 for an expired signed URL
  const status = answer.status === 403 && target.standing !== "own" ? 410 : answer.status;
  const essence = parseMediaType(answer.headers.get("content-type"))?.essence;
  const isUnrouted =
    status === 404 && target.standing === "own" && essence !== "application/problem+json";
  return definedMembers({ status, isUnrouted, retryAfterMs: retryAfterOf(answer) });
}
