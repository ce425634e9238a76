import { noteRequest, notesOf } from "@sluice/server/transport";
import { continuationOf, setContinuation } from "./continuation.ts";

/** What the SDK's transport asks of every POST of the legacy era, and what SEP-2532 adds. */
const accepted = "application/json, text/event-stream, */*";

/**
 * The same request, with an `Accept` that the SDK takes. Its transport refuses `application/json, *\/*`, which
 * SEP-2532 (open question 4) asks of a client, and any other without `text/event-stream`; the answer to
 * `resources/stream` is never a stream of events. The body is left out: hand it on as `parsedBody`. A client that
 * takes no JSON keeps its `Accept`, and is refused.
 */
export function acceptStream(request: Request): Request {
  const accept = request.headers.get("accept");
  if (accept?.includes("application/json") && accept.includes("text/event-stream")) return request;
  if (accept !== null && !takesJson(accept)) return request;
  const headers = new Headers(request.headers);
  headers.set("accept", accepted);
  const { url, method, signal } = request;
  const copy = new Request(url, { method, headers, signal });
  noteRequest(copy, notesOf(request));
  const go = continuationOf(request);
  if (go) setContinuation(copy, go);
  return copy;
}

/** RFC 9110 §12.5.1, without weights. */
function takesJson(accept: string): boolean {
  const ranges = accept.split(",").map((range) => range.split(";", 1)[0]!.trim().toLowerCase());
  return ["application/json", "application/*", "*/*"].some((range) => ranges.includes(range));
}
