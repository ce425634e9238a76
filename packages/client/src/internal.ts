/**
 * What the other packages of Sluice build on. Outside of the promise of versions: it changes in any release.
 * @module
 */
import { SluiceError } from "@sluice/core";
import { createOpenForeignFile, type OpenForeignFile } from "./foreign/foreign-file.ts";
import type { HopExchange } from "./net/exchange.ts";
import { fetchExchange } from "./net/fetch-exchange.ts";

export { streamingCapabilities } from "./calls/stream-calls.ts";
export { withDownloads, type DownloadSide, type SendingTransport } from "./calls/with-downloads.ts";
export { withStreaming } from "./calls/with-streaming.ts";
export { connectEither } from "./connect/either-revision.ts";
export { formatScale, scaleOf } from "./download/consent.ts";
export { cookieFetch } from "./net/cookie-fetch.ts";
export { isRedirect } from "./net/http-status.ts";
export type { ForeignFile, ForeignFileOptions, OpenForeignFile } from "./foreign/foreign-file.ts";
export { typeOfName } from "./upload/source/type-of-name.ts";
export {
  acceptUrl,
  ensureTrustedOrigins,
  type AcceptedUrl,
  type UrlHop,
  type UrlPolicy,
} from "./trust/accept-url.ts";

/** A `fetch` connects where a name leads: it is limited to origins that the caller trusts. */
const trustedExchange: HopExchange = async (request) => {
  if (request.scope === "any") return fetchExchange(request);
  throw new SluiceError(
    "unsupported",
    `client: this runtime cannot check where ${request.url.host} leads; add its origin to trustedOrigins`,
  );
};

/**
 * Opens a file under a URL that a third party named, without credentials. Accepts origins that the caller trusts; in
 * Node also every HTTPS origin at a public address.
 */
export const openForeignFile: OpenForeignFile = createOpenForeignFile(trustedExchange);
