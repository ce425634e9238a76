import type { ServerContext } from "@modelcontextprotocol/server";
import { backgroundClock, systemClock } from "@sluice/core/async";

/** How often a host hears that its call goes on: some give up after 30 s without a word. */
const everyMs = 15_000;

/** How long hosts wait for a call that says nothing: SDKs give up after 60 s. */
export const patienceMs = 55_000;

/** Whether the host of a call wants to hear of its progress: many then wait as long as there is some. */
export function wantsProgress({ mcpReq }: ServerContext): boolean {
  return mcpReq._meta?.progressToken !== undefined;
}

/** Works, and tells a host that wants to hear of progress that its call goes on. */
export async function keepAlive<T>({ mcpReq }: ServerContext, work: () => Promise<T>): Promise<T> {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return work();
  let cancel = backgroundClock.schedule(tell, everyMs);
  function tell(): void {
    // progress must grow: time does, also over two questions of one call, and so small it stays below what a tool counts
    const progress = systemClock.now() / Number.MAX_SAFE_INTEGER;
    const params = {
      progressToken: progressToken!,
      progress,
      message: "Waiting for the user’s file",
    };
    cancel = backgroundClock.schedule(tell, everyMs);
    // a host that does not hear it gives up as it would
    void (async () => mcpReq.notify({ method: "notifications/progress", params }))().catch(
      () => {},
    );
  }
  try {
    return await work();
  } finally {
    cancel();
  }
}
