import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Principal } from "@sluice/core";
import { createSluice, type Sluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createUploads, type Slot, type Uploads, type UploadsOptions } from "@sluice/uploads";
import { withUploads } from "@sluice/uploads/internal";
import { type Fields, fileFieldsOf, questionOf, termsOf } from "../src/elicitation/fields.ts";
import { UploadPageStore } from "../src/page/upload-pages.ts";
import { newId } from "../src/slots/slots.ts";
import { ownerOf } from "../src/slots/slot-token.ts";

/** A caller. */
const ann = {
  issuer: "https://id.example",
  subject: "ann",
  clientId: "c",
} satisfies Principal;

/** What a test does instead of the server. `true`: the request is done with. */
type Meddle = (request: IncomingMessage, response: ServerResponse) => boolean | void;

/** A page that was asked for. */
export interface AskedPage {
  readonly url: string;
  readonly pageId: string;
  readonly slots: ReadonlyMap<string, Slot>;
  /** Whose files they are. */
  readonly owner: Principal;
}

/** A server with upload pages over a folder of its own. */
export interface PageSite extends AsyncDisposable {
  readonly origin: string;
  readonly sluice: Sluice;
  readonly pages: UploadPageStore;
  readonly uploads: Uploads;
  readonly errors: unknown[];
  /** Method and path of every request. */
  readonly requests: string[];
  /** Comes before everything else; `undefined` for nothing. */
  meddle: Meddle | undefined;
  /** Asks as a tool does, for a caller of its own where none is named: the pages of one are bounded. */
  ask(fields: Fields, message?: string, owner?: Principal): Promise<AskedPage>;
}

export async function startPageSite(
  options: { uploads?: Partial<UploadsOptions>; sluice?: Partial<SluiceOptions> } = {},
): Promise<PageSite> {
  const root = await mkdtemp(join(tmpdir(), "sluice-page-"));
  const errors: unknown[] = [];
  let handle: ReturnType<typeof toNodeHandler> | undefined;
  const server = createServer((request, response) => {
    site.requests.push(`${request.method} ${request.url}`);
    if (site.meddle?.(request, response) !== true) handle?.(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const sluice = createSluice({
    storage: createMemoryBackend(),
    baseUri: "files://demo/",
    endpoint: `${origin}/mcp`,
    keys: "ephemeral",
    onError: (error) => void errors.push(error),
    onWarning: () => {},
    anonymous: true,
    ...options.sluice,
  } as SluiceOptions);
  const backend = createFsBackend({ root, writable: true });
  const uploads = createUploads(sluice, {
    storage: backend,
    scan: "none",
    maxBytes: 2 ** 30,
    ...options.uploads,
  });
  const pages = new UploadPageStore(sluice.host);
  const mcp = withSluice({ fetch: async () => new Response("rpc") }, sluice);
  handle = toNodeHandler(withUploads(mcp, uploads), {
    onError: (error) => void errors.push(error),
  });
  const site: PageSite = {
    origin,
    sluice,
    pages,
    uploads,
    errors,
    requests: [],
    meddle: undefined,
    async ask(
      fields,
      message = "The files for your report, please.",
      owner = { ...ann, subject: newId() },
    ) {
      const ttlMs = 600_000;
      const self = { ttlMs, selfAuthenticating: true };
      const reserving = fileFieldsOf(fields).map(
        async ([name, field]) =>
          [name, await uploads.reserve(owner, termsOf(field, {}), self)] as const,
      );
      const slots = new Map(await Promise.all(reserving));
      const pageId = newId();
      const question = questionOf({ message, fields }, slots, "self");
      const url = await pages.pageUrl({
        pageId,
        question,
        expiresAt: Date.now() + ttlMs,
        owner: ownerOf(owner),
      });
      return { url, pageId, slots, owner };
    },
    async [Symbol.asyncDispose]() {
      await uploads.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await backend.close?.();
      await rm(root, { recursive: true, force: true });
    },
  };
  return site;
}
