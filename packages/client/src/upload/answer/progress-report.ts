/** A `notifications/progress` (SEP-1306 §5). */
interface ProgressNotification {
  readonly method: "notifications/progress";
  readonly params: {
    readonly progressToken: string | number;
    readonly progress: number;
    readonly total: number;
    readonly message: string;
  };
}

/** Sends a notification to the server. */
export type Notify = (notification: ProgressNotification) => unknown;

/** Reports of one request are at most this many. */
const maxReports = 100;

/**
 * Tells the server how far an upload is: at most a hundred times, never less than before (MCP
 * progress must grow), and no longer once a report could not be sent.
 */
export function createProgressReport(
  progressToken: string | number | undefined,
  total: number,
  notify: Notify,
): (progress: number, name: string) => void {
  if (progressToken === undefined) return () => {};
  const step = Math.max(1, Math.ceil(total / maxReports));
  let last = 0;
  let isHeard = true;
  return (progress, name) => {
    const isDue = progress >= last + step || (progress === total && last < total);
    if (!isHeard || !isDue) return;
    last = progress;
    const params = { progressToken, progress, total, message: `Uploading ${name}` };
    void (async () => notify({ method: "notifications/progress", params }))().catch(() => {
      isHeard = false;
    });
  };
}
