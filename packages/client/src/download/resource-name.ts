import { isSameResource, parseResourceUri, SluiceError } from "@sluice/core";
import { RESOURCE_URI_HEADER } from "@sluice/core/wire";

/**
 * Throws `protocol` unless the headers name this resource. A download URL knows no more how it was
 * spelled in the call, so its server names it in the canonical way.
 */
export function ensureNamed(uri: string, headers: Headers): void {
  const named = parseResourceUri(headers.get(RESOURCE_URI_HEADER));
  if (named === undefined || !isSameResource(named, uri))
    throw new SluiceError("protocol", "client: the server answered for another resource");
}
