import type { SluiceError } from "@sluice/core";
import { PARTIAL_UPLOAD_TYPE, sanitizeFileName } from "@sluice/core/internal";
import { problem, type Host, type Reply } from "@sluice/server/internal";
import type { CorsTerms, PlainRequest, Routes } from "@sluice/transport-http";
import { callerOfPlain, routesBelow } from "@sluice/transport-http/internal";
import type { UploadPageStore } from "../page/upload-pages.ts";
import type { OpenRequests } from "../slots/open-requests.ts";
import { isId } from "../slots/slots.ts";
import {
  ownerOf,
  shortSlotsPath,
  slotsPath,
  tagOfOwner,
  type PresentedSlot,
  type SlotTokens,
} from "../slots/slot-token.ts";
import { codeOf, uploadError } from "../slots/upload-error.ts";
import { refusalOf } from "./answers.ts";
import { TUS_STEP_TYPE } from "../receive/request-facts.ts";
import { refusedSlotPage, showSlotPage } from "./page-route.ts";
import { serveSlot, type SlotServices } from "./slot-requests.ts";
import { asTusReply, isTus, tusOptions } from "./tus.ts";

/**
 * Makes the routes that answer requests below `<endpoint>/u/` and `<endpoint>/uploads/`. The order is fixed: Host and
 * Origin, by the handler → method → token → bearer → principal → rate → file → quota → headers → body. A refused
 * request leaves nothing in storage.
 */
export function createUploadRoutes(
  {
    host,
    tokens,
    requests,
    services,
    pages,
  }: {
    readonly host: Host;
    readonly tokens: SlotTokens;
    readonly requests: OpenRequests;
    readonly services: SlotServices;
    readonly pages: UploadPageStore;
  },
  base: string,
): Routes {
  const { storage } = services;
  const pageParts = { pages, storage };

  async function answer(request: PlainRequest, { path, rest }: SlotAddress): Promise<Reply> {
    const [token = "", segment, ...more] = rest.split("/");
    // the URL that a model is given ends with a slash
    const suffix = segment === "" ? undefined : segment;
    // `curl -T` appends the file name after a slash; steps have the file id there
    const isNamed = request.method === "PUT" && suffix !== undefined;
    const fileId = isNamed ? undefined : suffix;
    const allowed = fileId === undefined ? slotMethods : fileMethods;
    if (!allowed.includes(request.method))
      return problem(405, { headers: ["Allow", [...allowed, "OPTIONS"].join(", ")] });
    const isBrowser = request.method === "GET" && wantsPage(request);
    const step = stepOf(request);
    const address = host.addressOf(callerOfPlain(request));
    const entry =
      step && host.beginAudit({ action: "upload", step, address }, (name) => request.header(name));
    let received = 0;
    let slot: PresentedSlot | undefined;
    let isHolder = false;

    async function work(signal: AbortSignal): Promise<Reply> {
      const now = Date.now();
      const isShort = path === shortSlotsPath;
      slot = isShort ? await tokens.openStored(token, now) : tokens.openSealed(token, now);
      if (entry) entry.facts.grant = slot.uploadId;
      await ensureHolder(host, slot, request);
      isHolder = true;
      const owner = tagOfOwner(slot.owner);
      if (entry) entry.facts.principal = owner;
      await host.usage.admit(owner, "request");
      if (more.length > 0 || (fileId !== undefined && !isId(fileId))) throw unknownUpload();
      const slotUrl = `${host.endpoint.url}${path}${token}`;
      if (isBrowser && slot.auth === "self") return showSlotPage(pageParts, slot, slotUrl, signal);
      const reply = await serveSlot(services, {
        request,
        slot,
        slotUrl,
        fileId,
        name: isNamed ? nameIn(suffix) : undefined,
        signal,
        onBytes: (count) => void (received += count),
      });
      await entry?.conclude("complete", { bytes: received });
      return reply;
    }

    async function refuse(error: unknown): Promise<Reply> {
      const reportedError = isHolder
        ? error
        : await host.failures.errorToReport(error, address, request.signal);
      const reason = codeOf(error);
      const isGone = reason === "interrupted" || request.signal?.aborted === true;
      const outcome = isGone ? "aborted" : faults.has(reason) ? "failed" : "denied";
      entry?.end(outcome, { reason, bytes: received });
      // a request that only reads has a record only if it is refused
      if (!entry && slot && outcome === "denied") {
        const principal = isHolder ? tagOfOwner(slot.owner) : undefined;
        const audited = { grant: slot.uploadId, address, principal };
        host
          .beginAudit({ action: "upload", step: "inspect", ...audited })
          .end("denied", { reason });
      }
      if (outcome === "failed") host.onError(error);
      if (requests.leaving.isOver)
        return problem(503, { reason: "draining", headers: ["Retry-After", "1"] });
      return isBrowser && slot?.auth !== "bound"
        ? refusedSlotPage(reportedError)
        : refusalOf(reportedError, slot);
    }

    const respond = (): Promise<Reply> =>
      requests.closing.runUntil(request.signal, work).catch(refuse);
    const reply = await (entry ? entry.run(respond) : respond());
    return isTus(request) ? asTusReply(reply, slot) : reply;
  }

  const shortAt = routesBelow(`${base}${shortSlotsPath}`, (rest) => ({
    kind: "slot",
    // known from the path, so the store is not asked before rate limits apply
    credential: "url",
    cors: shortCors,
    answer: (request) => requests.track(answer(request, { path: shortSlotsPath, rest })),
  }));
  const prefix = `${base}${slotsPath}`;
  const sealedCors: CorsTerms = {
    ...slotCors,
    public: (path) => needsNoBearer(tokens, path.slice(prefix.length)),
  };
  const sealedAt = routesBelow(prefix, (rest) => ({
    kind: "slot",
    get credential() {
      return needsNoBearer(tokens, rest) ? "url" : "bearer";
    },
    cors: sealedCors,
    answer: (request) => requests.track(answer(request, { path: slotsPath, rest })),
  }));
  return (path) => shortAt(path) ?? sealedAt(path);
}

interface SlotAddress {
  readonly path: typeof slotsPath | typeof shortSlotsPath;
  readonly rest: string;
}

/** True for a slot URL that needs no bearer: one that is its own permission, and every expired one, which gets 410 and not 401. */
function needsNoBearer(tokens: SlotTokens, rest: string): boolean {
  const [token = ""] = rest.split("/", 1);
  try {
    return tokens.openSealed(token, Date.now()).auth === "self";
  } catch (error) {
    return codeOf(error) === "expired";
  }
}

/** Browsers ask for HTML when a person opens a URL; scripts and programs do not. */
function wantsPage(request: PlainRequest): boolean {
  return /(?:^|,)\s*text\/html\s*(?:[;,]|$)/i.test(request.header("accept") ?? "");
}

/** The file name in a segment of a path. */
function nameIn(segment: string): string {
  try {
    return sanitizeFileName(decodeURIComponent(segment));
  } catch {
    return sanitizeFileName(segment);
  }
}

const slotMethods = ["POST", "PUT", "GET"];
const fileMethods = ["HEAD", "PATCH", "DELETE"];
const faults: ReadonlySet<string> = new Set(["internal", "unavailable", "no_space"]);

/** The audit step of a request; one that only reads has none, unless it is refused. */
function stepOf({ method }: PlainRequest): "receive" | "discard" | undefined {
  if (method === "DELETE") return "discard";
  return method === "POST" || method === "PUT" || method === "PATCH" ? "receive" : undefined;
}

/** Requires the principal's bearer token for a bound slot. Pages of other sites may not send to any other slot. */
async function ensureHolder(host: Host, slot: PresentedSlot, request: PlainRequest): Promise<void> {
  if (slot.auth === "self") {
    // a GET may come from any site: a user follows a link, and nothing changes
    if (request.method === "GET") return;
    const site = request.header("sec-fetch-site");
    // the handler has rejected origins that are not allowed
    const isForeign = site !== undefined && site !== "same-origin" && site !== "none";
    if (isForeign && request.header("origin") === undefined)
      throw uploadError("permission_denied", "requests from other sites are not accepted");
  } else {
    const { principal } = await host.identify(callerOfPlain(request));
    if (!principal)
      throw uploadError(
        "unauthenticated",
        "the slot is bound, and the request has no bearer token",
      );
    if (!slot.matchesPrincipal(principal) || ownerOf(principal) !== slot.owner)
      throw unknownUpload();
  }
}

const slotCors: CorsTerms = {
  methods: [...slotMethods, ...fileMethods],
  headers:
    "Authorization, Content-Type, Content-Disposition, Content-Digest, Repr-Digest, Upload-Complete, Upload-Offset, Upload-Length, Upload-Metadata, Tus-Resumable, Mcp-Session-Id",
  exposed:
    "Location, Upload-Offset, Upload-Complete, Upload-Length, Upload-Limit, Upload-Expires, Tus-Resumable",
  options: ["Accept-Patch", `${PARTIAL_UPLOAD_TYPE}, ${TUS_STEP_TYPE}`, ...tusOptions],
};
const shortCors: CorsTerms = { ...slotCors, public: () => true };

function unknownUpload(): SluiceError {
  return uploadError("not_found", "there is no such upload");
}
