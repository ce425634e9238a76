import type { SluiceOptions } from "@sluice/server";
import type { MemoryStoresOptions } from "@sluice/state";
import type { SessionsOptions } from "@sluice/transport-http";
import type { UploadLimits } from "@sluice/uploads";
import type { LimitChoice } from "./serve-options.ts";

/** Downloads and reads at the same time, as many as a process has. */
const maxStreams = 256;
const maxUploads = 64;
/** With a server each; at the limit the longest idle one ends. */
const maxSessions = 256;

/** The limits as the help text says them. */
export const serveLimitsText: string = `Limits: all callers are one user, with the same token or none. At the same time ${maxStreams} downloads
and ${maxUploads} uploads, each of at most --max-upload; 1000 uploads may wait for their tool.`;

/**
 * Limits for a server whose callers are one user: all of them show the same token, or none. That user may
 * take every place of the process; the bounds of the process stay.
 */
export const serveLimits: NonNullable<SluiceOptions["limits"]> = {
  streams: { perPrincipal: maxStreams },
  listeners: { perPrincipal: 10_000 },
  responseBytes: { perPrincipal: 256 * 2 ** 20 },
};

/**
 * Sessions of such a user: as many as a process has, for a day: not every host opens another one when its own has
 * ended.
 */
export const serveSessions: SessionsOptions = {
  perPrincipal: maxSessions,
  perProcess: maxSessions,
  idleMs: 86_400_000,
};

/** Room for links and slots of such a user: all that there is. */
export const serveState: MemoryStoresOptions = { records: { perPrincipal: 100_000 } };

/** Of one of several users: no user takes all permits of the process. */
const streamsPerUser = 32;
const uploadsPerUser = 8;

/** Sessions where there are several users. */
export const sessionsOfUsers: SessionsOptions = { ...serveSessions, perPrincipal: 32 };

/** Limits of a server by its configuration; a user among several has a part of the process. */
export function limitsBy(
  { streams: perProcess = maxStreams, streamsPerUser: perUser }: LimitChoice,
  hasUsers: boolean,
): NonNullable<SluiceOptions["limits"]> {
  const perPrincipal = Math.min(perUser ?? (hasUsers ? streamsPerUser : perProcess), perProcess);
  const streams = { perPrincipal, perProcess };
  return hasUsers ? { streams } : { ...serveLimits, streams };
}

/** Limits of uploads of one user, or of all callers if there is one user: as many of the largest files as may come at the same time. */
export function uploadLimits(maxBytes: number, hasUsers = false): UploadLimits {
  const perPrincipal = hasUsers ? uploadsPerUser : maxUploads;
  const bytes = Math.min(perPrincipal * maxBytes, Number.MAX_SAFE_INTEGER);
  return { requests: { perPrincipal }, fileBytes: { perPrincipal: bytes } };
}
