import { answerMs, type Visit } from "./visit.ts";

/** Servers take at least 100 kB, Sluice 256 KiB. */
const bodyBytes = 64 * 1024;

/** Sends a large request that changes nothing: a list, with padding that servers pass over. */
export async function probeBody({ client, evidence, signal }: Visit): Promise<void> {
  const before = evidence.exchanges.length;
  const params = { _meta: { "dev.sluice/padding": "x".repeat(bodyBytes) } };
  await client
    .request({ method: "resources/list", params }, { signal, timeout: answerMs })
    .catch(() => {});
  signal.throwIfAborted();
  const seen = evidence.exchanges
    .slice(before)
    .find(({ rpcMethod }) => rpcMethod === "resources/list");
  evidence.largeRequest = seen && { bodyBytes, status: seen.status, fault: seen.fault };
}
