import type { StreamPage } from "@sluice/state";
import type { ResumeParts } from "./parts.ts";
import type { SessionRequest } from "./session-request.ts";
import { readRecord } from "./stream-record.ts";

interface AskedStream {
  readonly streamId: string;
  readonly page: StreamPage;
  readonly asked: SessionRequest;
}

/**
 * Makes this process work on a stream whose process is gone: it runs the call again where that is allowed, and ends it
 * with an error where it is not. False, and without effect, while a process holds the stream.
 */
export async function takeOver(
  { store, calls, openWriter, leaseMs, reruns, onError }: ResumeParts,
  { streamId, page: before, asked }: AskedStream,
): Promise<boolean> {
  if (before.isOver || calls.of(streamId)) return false;
  const now = Date.now();
  const epoch = await store.claim(streamId, { now, heldUntil: now + leaseMs });
  if (epoch === undefined) return false;
  // after the claim no other process writes: this is all that was said
  const page = await store.read(streamId, { after: 0, now });
  if (!page) return true;
  const { requestId, sessionId, owner, rerun: record } = readRecord(page);
  const writer = openWriter({ streamId, epoch, requestId, lastSeq: page.lastSeq });
  if (!reruns || !record) {
    await writer.fail("interrupted");
    return true;
  }
  const { request, mcpOptions } = asked;
  const authInfo = mcpOptions?.authInfo;
  try {
    const ids = { sessionId, owner, epoch };
    calls.add(await reruns.start({ ...record, ...ids, page, writer, authInfo, request }));
  } catch (error) {
    onError(error);
    await writer.fail("interrupted");
  }
  return true;
}
