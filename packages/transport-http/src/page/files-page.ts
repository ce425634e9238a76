import { encodeBase64Url, ensureKnownOptions, isLoopbackHost } from "@sluice/core/internal";
import type { Caller, Sluice } from "@sluice/server";
import {
  pageAsset,
  pageHeaders,
  pageReply,
  problem,
  problemOf,
  type Reply,
} from "@sluice/server/internal";
import type { PlainRequest } from "../endpoint/plain-route.ts";
import type { Routes } from "../endpoint/router.ts";
import { script, style } from "./browser-files.ts";
import { folderPage, noticePage, type PageFrame } from "./folder-html.ts";

/** Options of the page that shows the files in a browser. */
export interface FilesPageOptions {
  /** Name of the server, for people. Default: host and port of its endpoint. */
  readonly name?: string;
  /**
   * The URI of an archive of a folder, as it was given to `sluice.provide`; `undefined` for none. Gets the URI of the folder, which
   * ends with a slash. Default: folders are not downloaded as archives.
   */
  readonly archive?: (folderUri: string) => string | undefined;
  /**
   * Makes a page on which the caller sends files, and gives its URL, which the browser is led to. Default: the page takes no files.
   */
  readonly upload?: (caller: Caller, signal: AbortSignal | undefined) => Promise<string>;
}

const pageOptions: Readonly<Record<keyof FilesPageOptions, true>> = {
  name: true,
  archive: true,
  upload: true,
};

const icon =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#5c83ff" d="M1 4.5A1.5 1.5 0 0 1 2.5 3H6l2 2h5.5A1.5 1.5 0 0 1 15 6.5v6a1.5 1.5 0 0 1-1.5 1.5h-11A1.5 1.5 0 0 1 1 12.5z"/></svg>';
const assets = [pageAsset("js", script), pageAsset("css", style), pageAsset("svg", icon)] as const;
const assetsPath = "/files-page/";

/**
 * The files for a browser: `GET /` shows a folder, makes links to its files, and leads to them. A caller sees what it may list
 * over MCP. Throws a `TypeError` for a Sluice that makes no links, and for an endpoint that is the root itself.
 */
export function filesPageRoutes(
  who: string,
  sluice: Sluice,
  { base, filesPage }: { readonly base: string; readonly filesPage: FilesPageOptions | true },
): Routes {
  const settings = filesPage === true ? {} : filesPage;
  ensureKnownOptions(`${who}: filesPage`, settings, pageOptions);
  if (!sluice.host.hasLinks)
    throw new TypeError(`${who}: filesPage downloads by links: pass links: true to createSluice`);
  if (base === "")
    throw new TypeError(
      `${who}: filesPage is at the root, which is the endpoint: pass an endpoint with a path, such as /mcp`,
    );
  const page = new FilesPage(sluice, settings);
  return (path) => {
    if (path === "/") {
      const { isOpenByDefault } = sluice.host;
      const answer = (request: PlainRequest): Promise<Reply> => page.answer(request);
      return { kind: "page", credential: "url", isOpenByDefault, answer };
    }
    if (!path.startsWith(base + assetsPath)) return undefined;
    const asset = assets.find(({ name }) => path.endsWith(`/${name}`));
    if (!asset) return undefined;
    const { text, headers } = asset;
    const reply = { status: 200, headers, text };
    const answer = async ({ method }: PlainRequest): Promise<Reply> =>
      isRead(method) ? reply : problem(405, { headers: ["Allow", "GET, HEAD"] });
    return { kind: "page", credential: "url", answer };
  };
}

/** The request of a person, which has one of these in its query; none of them shows a folder. */
const actions = ["open", "download", "link"] as const;

class FilesPage {
  readonly #sluice: Pick<Sluice, "link" | "host" | "endpoint">;
  readonly #settings: FilesPageOptions;
  readonly #home: URL;
  readonly #frame: Omit<PageFrame, "nonce">;

  constructor(sluice: Sluice, settings: FilesPageOptions) {
    this.#sluice = sluice;
    this.#settings = settings;
    this.#home = new URL("/", sluice.endpoint.url);
    const { host } = this.#home;
    const { href: endpoint, pathname } = new URL(sluice.endpoint.url);
    const [scriptUrl = "", styleUrl = "", iconUrl = ""] = assets.map(
      ({ name }) => pathname.replace(/\/$/, "") + assetsPath + name,
    );
    this.#frame = { name: settings.name ?? host, host, endpoint, scriptUrl, styleUrl, iconUrl };
  }

  /** Shows a page for what fails; what the script asks for is a problem in JSON. */
  async answer(request: PlainRequest): Promise<Reply> {
    const { method, signal } = request;
    const query = queryOf(request.target);
    const action = actions.find((name) => query.has(name));
    try {
      if (method === "POST" && this.#settings.upload && query.size === 0)
        return await this.#upload(request, this.#settings.upload);
      // a link is made by a GET alone: HEAD has no effect
      const allowed = [
        "GET",
        ...(action ? [] : ["HEAD"]),
        ...(this.#settings.upload ? ["POST"] : []),
      ];
      if (method === "POST" || !allowed.includes(method))
        return problem(405, { headers: ["Allow", allowed.join(", ")] });
      if (action !== undefined) {
        if (isForeign(request)) return this.#foreign();
        return await this.#link(request, action, query.get(action)!);
      }
      // another site may lead its user here by a link; it makes no work for the server unseen
      if (isForeign(request) && request.header("sec-fetch-dest") !== "document")
        return this.#foreign();
      if (this.#isElsewhere(request.header("host"))) {
        const home = new URL(this.#home);
        home.search = query.toString();
        return leadTo(302, home.href);
      }
      return await this.#show(request, query);
    } catch (error) {
      // a browser that went away is not our fault
      if (signal?.aborted === true) return problem(503);
      const problemReply = problemOf(error);
      // a link reports its faults itself
      if (problemReply.status >= 500 && action === undefined) this.#sluice.host.onError(error);
      return action === "link" ? problemReply : this.#failure(problemReply);
    }
  }

  /** Whether a browser asks under another name of this machine: a page of that origin could not send files. */
  #isElsewhere(host: string | undefined): boolean {
    const { protocol, hostname, port } = this.#home;
    const address = `${protocol}//${host}`;
    if (host === undefined || !URL.canParse(address)) return false;
    const requestUrl = new URL(address);
    const isLoopback = [requestUrl.hostname, hostname].every(isLoopbackHost);
    return isLoopback && requestUrl.hostname !== hostname && requestUrl.port === port;
  }

  async #show(request: PlainRequest, query: URLSearchParams): Promise<Reply> {
    const { archive, upload } = this.#settings;
    const cursor = query.get("after") ?? undefined;
    const uri = query.get("folder") ?? undefined;
    const { signal } = request;
    const caller = callerOf(request);
    const view = await this.#sluice.host.browse({ caller, uri, cursor, signal });
    const isEmpty = view.files.length + view.folders.length === 0;
    return this.#page((frame) =>
      folderPage(frame, view, {
        archive: isEmpty || view.uri === undefined ? undefined : archive?.(view.uri),
        takesFiles: upload !== undefined,
        isLater: cursor !== undefined,
      }),
    );
  }

  /** Only a click on the page, or an address that was typed, makes a link: not another page. */
  async #link(
    request: PlainRequest,
    action: (typeof actions)[number],
    uri: string,
  ): Promise<Reply> {
    const disposition = action === "download" ? "attachment" : "inline";
    const { signal } = request;
    const caller = callerOf(request);
    const issued = await this.#sluice.link(uri, { caller, disposition, signal });
    if (action !== "link") return leadTo(302, issued.url);
    const { url, expiresAt, mimeType, size } = issued;
    const text = JSON.stringify({ url, expiresAt, mimeType, size });
    const type = ["Content-Type", "application/json"];
    return { status: 200, headers: [...type, ...pageHeaders(closedPolicy)], text };
  }

  async #upload(
    request: PlainRequest,
    upload: NonNullable<FilesPageOptions["upload"]>,
  ): Promise<Reply> {
    if (isForeign(request)) return this.#foreign();
    return leadTo(303, await upload(callerOf(request), request.signal));
  }

  #page(text: (frame: PageFrame) => string, status = 200, headers: readonly string[] = []): Reply {
    const nonce = encodeBase64Url(crypto.getRandomValues(new Uint8Array(16)));
    const reply = pageReply(text({ ...this.#frame, nonce }), policyOf(nonce, this.#home.origin));
    // without a referrer browsers send the form of this page with the origin null, which the gate refuses
    const pageFields = reply.headers.map((value) =>
      value === "no-referrer" ? "same-origin" : value,
    );
    return { ...reply, status, headers: [...pageFields, ...headers] };
  }

  #failure({ status, headers }: Reply): Reply {
    const [heading, sentence] = failures[status] ?? failures[500]!;
    const keptHeaders = ["Retry-After", "WWW-Authenticate"].flatMap((name) => {
      const at = headers.indexOf(name);
      return at < 0 ? [] : [name, headers[at + 1]!];
    });
    return this.#page((frame) => noticePage(frame, heading, sentence), status, keptHeaders);
  }

  #foreign(): Reply {
    return this.#failure({ status: 403, headers: [] });
  }
}

const failures: Readonly<Record<number, readonly [heading: string, sentence: string]>> = {
  401: ["Sign in first", "This server shows its files only to users that it knows."],
  403: ["Another site led here", "Open the list of files itself first, and go on from there."],
  404: ["Not found", "It was moved or deleted, or the address is not complete."],
  429: ["Too many requests", "Please wait a minute and load the page again."],
  500: [
    "Not available right now",
    "The server could not read its files. Please load the page again.",
  ],
};

/** The page runs its own script, shows files of this server, and asks nothing of any other. */
function policyOf(nonce: string, origin: string): string {
  return [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src 'nonce-${nonce}'`,
    // the address in the browser may be another name of this machine than that of the links
    `connect-src 'self' ${origin}`,
    `img-src 'self' blob: ${origin}`,
    `media-src 'self' ${origin}`,
    // a document in the browser's viewer, and an upload page
    `frame-src blob: 'self' ${origin}`,
    `form-action 'self' ${origin}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
}

const closedPolicy =
  "default-src 'none'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

function leadTo(status: number, url: string): Reply {
  const headers = ["Location", url, "Content-Length", "0", ...pageHeaders(closedPolicy)];
  return { status, headers, text: "" };
}

function callerOf(request: PlainRequest): Caller {
  const { address, authInfo } = request;
  return { header: (name) => request.header(name), address, authInfo };
}

/** Whether a page of another site made the browser send the request. */
function isForeign(request: PlainRequest): boolean {
  const site = request.header("sec-fetch-site") ?? "none";
  return site !== "same-origin" && site !== "none";
}

function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

function queryOf(target: string): URLSearchParams {
  const at = target.indexOf("?");
  return new URLSearchParams(at < 0 ? "" : target.slice(at + 1));
}
