/**
 * Header that leads from a copy of a request's headers back to the request: some SDKs and adapters give handlers only such
 * copies. A server sets it; what a client sends there finds no request.
 */
export const SHARED_REQUEST_HEADER = "sluice-request-id";

const requests = new Map<string, Request>();

/**
 * Lets handlers that see the headers of a request find the request itself, until the function that is given back is called. Does
 * nothing where headers cannot be changed, as on some runtimes.
 */
export function shareRequest(request: Request): () => void {
  const { headers } = request;
  const known = headers.get(SHARED_REQUEST_HEADER) ?? "";
  const before = requests.get(known);
  const id = before ? known : crypto.randomUUID();
  try {
    if (!before) headers.set(SHARED_REQUEST_HEADER, id);
  } catch {
    return () => {};
  }
  requests.set(id, request);
  return () => {
    // a copy that outlives it may have been shared since
    if (requests.get(id) !== request) return;
    if (before) requests.set(id, before);
    else requests.delete(id);
  };
}

/** The request that was shared with these headers, if it still is. */
export function sharedRequest(headers: Pick<Headers, "get">): Request | undefined {
  const id = headers.get(SHARED_REQUEST_HEADER);
  return id === null ? undefined : requests.get(id);
}

/** What is known of a request, or of the one that was shared with its headers. */
export function knownOf<Known>(
  known: WeakMap<Request, Known>,
  request: Request | undefined,
): Known | undefined {
  if (!request) return undefined;
  const shared = known.has(request) ? request : sharedRequest(request.headers);
  return shared && known.get(shared);
}
