import type { StreamPage } from "@sluice/core";
import type { Asked, ResumeParts, StreamRecord } from "./options.ts";
import { startRerun } from "../rerun/rerun-call.ts";
import { journalFor } from "./start.ts";

/** Reads the record of a stream. */
export function readRecord({ record }: StreamPage): StreamRecord {
  return JSON.parse(record) as StreamRecord;
}

/**
 * Makes this process work on a stream whose process is gone: it runs the request again where that is
 * allowed, and ends it with an error where it is not. Does nothing while somebody holds the stream; true
 * when it did.
 */
export async function takeOver(
  parts: ResumeParts,
  { streamId, page, asked }: { streamId: string; page: StreamPage; asked: Asked },
): Promise<boolean> {
  const { store, runs, leaseMs, rerun, onError } = parts;
  if (page.isOver || runs.of(streamId)) return false;
  const now = Date.now();
  const epoch = await store.claim(streamId, { now, heldUntil: now + leaseMs });
  if (epoch === undefined) return false;
  // after the claim nobody else writes: what is there now is all that was said
  const said = await store.read(streamId, { after: 0, now });
  if (!said) return true;
  const { requestId, sessionId, owner, rerun: rerunnable } = readRecord(said);
  const journal = journalFor(parts, { streamId, epoch, requestId, lastSeq: said.lastSeq });
  if (!rerun || !rerunnable) {
    await journal.fail("interrupted");
    return true;
  }
  const { request, mcpOptions } = asked;
  const authInfo = mcpOptions?.authInfo;
  try {
    const server = await rerun.server(authInfo ? { authInfo } : {});
    const ids = { sessionId, owner, epoch };
    runs.add(
      startRerun({
        ...rerunnable,
        ...ids,
        server,
        page: said,
        journal,
        authInfo,
        request,
        onError,
      }),
    );
  } catch (error) {
    onError(error);
    await journal.fail("interrupted");
  }
  return true;
}
