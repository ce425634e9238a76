import type { Caller, Sluice } from "@sluice/server";
import { pageHeaders, pageReply, problem, problemOf, type Reply } from "@sluice/server/internal";
import { createUriMapper, type StorageBackend } from "@sluice/storage";
import type { Routes } from "@sluice/transport-http";
import { readFolder, listingHtml, listingPolicy } from "./listing-html.ts";

/** The files that a browser may see. */
interface BrowseOptions {
  readonly sluice: Pick<Sluice, "link">;
  readonly storage: Pick<StorageBackend, "list">;
  /** Base of the resource URIs. */
  readonly uri: string;
}

type BrowseRequest = Pick<Caller, "header" | "address"> & {
  readonly method: string;
  readonly target: string;
  readonly signal?: AbortSignal | undefined;
};

/**
 * The folder for a browser: `GET /` lists it, and `GET /open` makes a link to a file and leads there. For servers of one machine
 * without a token, where every program may read all of it over MCP.
 */
export function browseRoutes({ sluice, storage, uri }: BrowseOptions): Routes {
  const mapper = createUriMapper(uri);

  /** Another site may lead its user here by a link; it makes no work for the server unseen. */
  async function list({ target, signal, header }: BrowseRequest): Promise<Reply> {
    if (isForeign(header) && header("sec-fetch-dest") !== "document") return foreignPage();
    const query = queryOf(target);
    const folder = query.get("folder") ?? "";
    if (folder !== "" && !folder.endsWith("/")) return problem(404);
    const cursor = query.get("after") ?? undefined;
    const listing = await readFolder(storage, { folder, cursor, signal });
    return pageReply(listingHtml(folder, listing), listingPolicy);
  }

  /** Only a click on the list, or an address that was typed, makes a link: not another page. */
  async function open(request: BrowseRequest): Promise<Reply> {
    const { target, signal, header, address } = request;
    if (isForeign(header)) return foreignPage();
    const key = queryOf(target).get("file") ?? "";
    const { url } = await sluice.link(mapper.toUri(key), {
      caller: { header, address },
      disposition: "inline",
      signal,
    });
    return {
      status: 302,
      headers: ["Location", url, "Content-Length", "0", ...pageHeaders(listingPolicy)],
      text: "",
    };
  }

  const routes = {
    "/": { kind: "page", credential: "url", answer: answerWith(list) },
    "/open": { kind: "page", credential: "url", answer: answerWith(open) },
  } as const;
  return (path) => (Object.hasOwn(routes, path) ? routes[path as keyof typeof routes] : undefined);
}

/** Whether a page of another site made the browser send the request. */
function isForeign(header: Caller["header"]): boolean {
  const site = header("sec-fetch-site") ?? "none";
  return site !== "same-origin" && site !== "none";
}

function foreignPage(): Reply {
  return problem(403, { detail: "Another site led here: open the list of files itself first" });
}

/** GET and HEAD; errors reveal nothing about storage. */
function answerWith(work: (request: BrowseRequest) => Promise<Reply>) {
  return async (request: BrowseRequest): Promise<Reply> => {
    if (request.method !== "GET" && request.method !== "HEAD")
      return problem(405, { headers: ["Allow", "GET, HEAD"] });
    return work(request).catch((error: unknown) => {
      request.signal?.throwIfAborted();
      return problemOf(error);
    });
  };
}

function queryOf(target: string): URLSearchParams {
  const at = target.indexOf("?");
  return new URLSearchParams(at < 0 ? "" : target.slice(at + 1));
}
