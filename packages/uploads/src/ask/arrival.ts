import type { Principal } from "@sluice/core";
import { sleep, systemClock } from "@sluice/core/internal";
import { unlessMissing } from "@sluice/storage/plugin";
import { z } from "zod/v4";
import type { UploadPages } from "../page/upload-pages.ts";
import type { ClaimedFile, Slots } from "../slots/slots.ts";

/** What has come of an upload that a tool's answer asked for. */
export type Arrival =
  /** The user gave an answer on the page, or refused. */
  | { readonly kind: "answered" }
  /** Whole files came to the upload URL, and no page has the question. */
  | { readonly kind: "sent"; readonly files: readonly ClaimedFile[] }
  /** Whole files are there, if any, and the page is needed for the answer: its user has not pressed Done. */
  | { readonly kind: "waiting"; readonly arrivedFiles: number }
  /** The question has ended. */
  | { readonly kind: "over" };

/** Where to look. */
export interface Awaited {
  readonly principal: Principal | undefined;
  /** Of the page of the question. */
  readonly pageId: string;
  readonly slotIds: readonly string[];
  /** Files alone are an answer while no page shows the question. */
  readonly takesSent: boolean;
  readonly signal: AbortSignal;
}

interface ArrivalParts {
  readonly pages: Pick<UploadPages, "statusOf">;
  readonly slots: Pick<Slots, "received">;
}

async function lookForArrival(
  { pages, slots }: ArrivalParts,
  { principal, pageId, slotIds, takesSent, signal }: Awaited,
): Promise<Arrival> {
  const status = await pages.statusOf(pageId);
  if (status === "answered" || status === "declined") return { kind: "answered" };
  if (status !== "open" && status !== "shown") return { kind: "over" };
  const files: ClaimedFile[] = [];
  for (const slotId of slotIds)
    files.push(...((await unlessMissing(slots.received(principal, slotId, { signal }))) ?? []));
  // a user may still take a file back that the page has sent
  const isSent = takesSent && status === "open" && files.length > 0;
  return isSent ? { kind: "sent", files } : { kind: "waiting", arrivedFiles: files.length };
}

/** Looks until there is an answer, and at most `waitMs`. */
export async function awaitArrival(
  parts: ArrivalParts,
  awaited: Awaited,
  waitMs: number,
): Promise<Arrival> {
  const until = systemClock.now() + waitMs;
  for (let everyMs = 200; ; everyMs = Math.min(everyMs * 1.5, 2_000)) {
    awaited.signal.throwIfAborted();
    const arrival = await lookForArrival(parts, awaited);
    const leftMs = until - systemClock.now();
    if (arrival.kind !== "waiting" || leftMs <= 0) return arrival;
    await sleep(Math.min(everyMs, leftMs), awaited.signal);
  }
}

/**
 * Waits for the answer on the page; `undefined` when there is none within `waitMs`. It asks the store, at the end every
 * two seconds: the page may talk to another process.
 */
export async function awaitAnswer(
  pages: Pick<UploadPages, "answerOf">,
  pageId: string,
  { waitMs, signal }: { readonly waitMs: number; readonly signal: AbortSignal },
): Promise<unknown> {
  const until = systemClock.now() + waitMs;
  for (let everyMs = 100; ; everyMs = Math.min(everyMs * 1.5, 2_000)) {
    signal.throwIfAborted();
    const answer = await pages.answerOf(pageId, { signal });
    const leftMs = until - systemClock.now();
    if (answer !== undefined || leftMs <= 0) return answer;
    await sleep(Math.min(everyMs, leftMs), signal);
  }
}

/** True where a client agreed to open the page, or repeated its call only to wait. */
export function isConsent(raw: unknown): boolean {
  return raw === undefined || consentSchema.safeParse(raw).success;
}

const consentSchema = z.looseObject({ action: z.literal("accept") });
