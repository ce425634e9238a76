import type { SeenCap } from "../evidence.ts";
import { answerMs, type Visit } from "./visit.ts";

/** Bodies to try, in KiB. Servers take at least 100 kB, Sluice 256 KiB, and nginx passes 1 MiB on. */
const triedKiB = [64, 256, 1_088, 2_048];

/** KiB of all bodies together. */
const mostKiB = 4_096;

/** Milliseconds that one body may be expected to take. */
const longestMs = 3_000;

/** Sends larger and larger requests that change nothing, until one is refused; then looks for where that begins. */
export async function probeBody(visit: Visit): Promise<void> {
  let leftKiB = mostKiB;
  let passedKiB = 0;
  let msOfOne = 0;
  const send = async (kib: number): Promise<SeenCap["answer"]> => {
    leftKiB -= kib;
    const begun = performance.now();
    const answer = await sendPadded(kib, visit);
    msOfOne = (performance.now() - begun) / kib;
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
    if (kib * msOfOne > longestMs) return;
    const answer = await send(kib);
    const isFirst = passedKiB === 0;
    if (isRefusal(answer, isFirst)) {
      visit.evidence.bodyCap = await narrow({ passedKiB, refusedKiB: kib, answer });
      return;
    }
    // a file may be larger than a message that the server takes
    if (answer.fault !== undefined || (answer.status === 413 && !takesFiles(visit))) return;
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
  const seen = evidence.exchanges.slice(before).find(({ rpcMethod }) => rpcMethod === method);
  const { status, headers, fault } = seen ?? {};
  const type = headers?.get("content-type") ?? "";
  const isOfServer = /\bjson\b/i.test(type) || headers?.has("x-powered-by") === true;
  return { status, isOfServer, fault };
}
