import { lateMs } from "../evidence.ts";
import { findOwn } from "./probe-grant.ts";
import { getBytes } from "./get-bytes.ts";
import type { Visit } from "./visit.ts";

/** Bytes of a resource to read from its beginning. */
const wholeBytes = 768 * 1024;

/** With less left of what may be downloaded, nothing is. */
const leastBytes = 4_096;

/** GETs the resource as a whole, up to 768 KiB. */
export async function probeWhole(visit: Visit): Promise<void> {
  const { evidence } = visit;
  const { grant } = evidence;
  if (!grant || "refusal" in grant.accepted || visit.budget.left < leastBytes) return;
  const { url } = grant.accepted;
  // half of what is left: a slow beginning is looked at twice
  const atMost = Math.min(wholeBytes, Math.floor(visit.budget.left / 2));
  const whole = await getBytes(visit, url, { atMost });
  evidence.whole = whole;
  if (whole.status === 404)
    evidence.grant = { ...grant, answersAt: await findOwn(url.href, visit) };
}

/** GETs one byte of it, and the whole once more where that began late. */
export async function probeRange(visit: Visit): Promise<void> {
  const { evidence } = visit;
  const { grant, whole } = evidence;
  if (!grant || "refusal" in grant.accepted || !whole || whole.bytes.length < 2) return;
  const { url } = grant.accepted;
  evidence.oneByte = await getBytes(visit, url, { range: "bytes=1-1", atMost: 1 });
  if (whole.firstByteMs < lateMs) return;
  const second = await getBytes(visit, url, { atMost: whole.bytes.length });
  evidence.secondFirstByteMs = second.firstByteMs;
}
