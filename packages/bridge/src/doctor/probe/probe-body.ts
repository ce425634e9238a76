import { answerMs, type Visit } from "./visit.ts";

/** More than what proxies take by default, and less than what MCP servers do: 1.25 MiB. */
const bodyBytes = 1.25 * 2 ** 20;

/** Sends a large request that changes nothing: a list, with padding that servers pass over. */
export async function probeBody({ client, evidence, signal }: Visit): Promise<void> {
  const before = evidence.exchanges.length;
  const params = { _meta: { "dev.sluice/padding": "x".repeat(bodyBytes) } };
  await client
    .request({ method: "resources/list", params }, { signal, timeout: answerMs })
    .catch(() => {});
  signal.throwIfAborted();
  evidence.largeRequest = evidence.exchanges
    .slice(before)
    .find(({ rpcMethod }) => rpcMethod === "resources/list");
}
