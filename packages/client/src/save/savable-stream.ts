import { EXTENSION_ID } from "@sluice/core/internal";
import { type RequestingClient, outgoingCall } from "../calls/stream-calls.ts";
import { httpExchange } from "../net/node/http-exchange.ts";
import {
  createCache,
  type ResourceCache,
  type ResourceCacheOptions,
} from "../download/resource-cache.ts";
import { saveResource, type SavedFile, type SaveOptions } from "./save-resource.ts";
import { bodyOf, openResource, type OpenedResource } from "../download/open-resource.ts";
import { type ResourceStream, settingsOf, type StreamOptions } from "../download/stream-options.ts";

/** A resource on its way, to be read or saved: one of the two, once. */
export interface SavableStream extends ResourceStream {
  /**
   * Saves the bytes to a file. `path` is the file itself, or a folder when it is one or ends with a separator; the
   * server's name is used only in a folder, and made safe.
   *
   * The bytes go to a hidden file beside the target, counted and hashed; the file appears under its name at once, whole
   * and verified, or not at all. Nothing that exists is replaced unless `overwrite` says so: in a folder a numbered
   * name is taken, a file of that path is `already_exists`. The file gets the permissions of any new file there, or
   * keeps those of the file of this user that it replaces, and the time of the server's `Last-Modified` (RFC 9110
   * §8.8.2) unless that is in the future.
   *
   * Also rejects with `no_space`, `permission_denied`, `invalid_argument` for a name that the disk rejects, `too_large`
   * for a file that is too large for the file system, `corrupt`, `interrupted`, `throttled`, `timeout`,
   * `precondition_failed`, or with `signal.reason`.
   */
  saveTo(path: string, options?: SaveOptions): Promise<SavedFile>;
}

/**
 * Asks an MCP server for the bytes of a resource (SEP-2532 §3) through an SDK client, version 1 or
 * 2, whose transport has the {@link withStreaming} fetch. A download URL is preferred unless
 * `prefer` says otherwise: it can be continued, and fetched in parallel.
 *
 * Rejects with `not_found`, `unsupported`, `too_large`, `permission_denied`, `unauthenticated`,
 * `throttled`, `untrusted`, `protocol`, `unavailable`, `timeout`, or with `signal.reason`.
 */
export async function streamResource(
  client: RequestingClient,
  uri: string,
  options: StreamOptions = {},
): Promise<SavableStream> {
  const settings = settingsOf({ prefer: ["downloadUrl", "redirect", "direct"], ...options });
  const open = (): Promise<OpenedResource> => openResource(client, uri, settings, httpExchange);
  const opened = await open();
  return {
    ...opened.facts,
    body: bodyOf(opened),
    saveTo: (path, save = {}) => saveResource(opened, open, path, save),
  };
}

/**
 * A cache of small resources and of facts about all of them, over `streamResource` and a client: it belongs only to
 * that client's principal.
 */
export function createResourceCache(
  client: RequestingClient,
  options: ResourceCacheOptions = {},
): ResourceCache {
  return createCache((uri, streamOptions) => streamResource(client, uri, streamOptions), options);
}

/** Options of {@link streamLink}. */
export interface LinkOptions extends StreamOptions {
  /** URL of the MCP endpoint that named the link: its origin needs no trust, and gets no credentials. */
  readonly endpoint?: URL;
}

/**
 * Opens a link as {@link streamResource} opens a resource: resumable, bounded, of the endpoint's origin or a trusted one.
 * Rejects with `untrusted` for any other, and as `streamResource` does.
 */
export function streamLink(
  link: string,
  { endpoint = nowhere, ...options }: LinkOptions = {},
): Promise<SavableStream> {
  const client: RequestingClient = {
    async request({ method, params }) {
      const outgoing = outgoingCall({ id: 0, method, params });
      if (outgoing)
        outgoing.call.answer = { exchange: httpExchange, credentials: { endpoint }, isLink: true };
      return { uri: link, downloadUrl: link, _meta: { [EXTENSION_ID]: { auth: "self" } } };
    },
  };
  return streamResource(client, link, options);
}

/** A reserved name (RFC 2606 §2): no link is of its origin. */
const nowhere = new URL("https://endpoint.invalid/");
