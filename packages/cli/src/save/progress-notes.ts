import type { ServerContext } from "@modelcontextprotocol/server";

const everyMs = 1_000;

/**
 * Tells a client that asked for it how many bytes of a call are done, at most once a second: one that gives up calls which say
 * nothing waits for a large file. A note that cannot be sent changes nothing.
 */
export function createProgressNotes(
  { _meta, notify }: Pick<ServerContext["mcpReq"], "_meta" | "notify">,
  total: number | undefined,
): (progress: number) => void {
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return () => {};
  let noted = Date.now();
  return (progress) => {
    if (Date.now() - noted < everyMs) return;
    noted = Date.now();
    const params = { progressToken, progress, ...(total === undefined ? {} : { total }) };
    notify({ method: "notifications/progress", params }).catch(() => {});
  };
}
