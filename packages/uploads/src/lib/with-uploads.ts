import { createOriginGate, type OriginGateOptions } from "@sluice/server";
import { answerPlainly, type PlainRoute, type SluiceHandler } from "@sluice/transport-http";
import type { Uploads } from "./create-uploads.ts";
import { createPageRoute } from "./page/page-route.ts";
import { createUploadRoute } from "./upload-route.ts";

/** Options of {@link withUploads}. */
export interface WithUploadsOptions extends OriginGateOptions {
  /** Path of the endpoint as this process sees it, when a proxy in front changes it. Default: that of `endpoint`. */
  readonly path?: string;
}

/**
 * Adds the upload endpoint `<endpoint>/uploads/…` and its pages to a handler. Over `toNodeHandler` bodies go straight
 * from the connection to storage; elsewhere they are web streams.
 */
export function withUploads(
  handler: SluiceHandler,
  uploads: Uploads,
  options: WithUploadsOptions = {},
): SluiceHandler {
  const { host, pages } = uploads.parts;
  const endpoint = host.endpoint.url;
  const gate = createOriginGate(endpoint, options);
  const path = (options.path ?? new URL(endpoint).pathname).replace(/\/+$/, "");
  const receive = createUploadRoute(uploads.parts, { gate, path });
  const show = createPageRoute({ pages, gate, endpoint, path, onError: host.onError });
  const plain: PlainRoute = (request) =>
    handler.plain(request) ?? receive(request) ?? show(request);
  return {
    plain,
    async fetch(request, mcpOptions) {
      const answered = answerPlainly(plain, request, mcpOptions?.authInfo);
      return answered ?? handler.fetch(request, mcpOptions);
    },
  };
}
