import { SluiceError } from "@sluice/core";
import { PARTIAL_UPLOAD_TYPE } from "@sluice/core/wire";
import { problem, type AuditEntry, type Caller, type Reply } from "@sluice/server";
import type { CorsTerms, PlainRequest, Routes } from "@sluice/transport-http";
import { offsetReply, refusalOf, steppedReply, storedReply } from "./answers.ts";
import type { Arrival } from "./arrival.ts";
import { receiveForm } from "./multipart-upload.ts";
import { overviewReply } from "./overview.ts";
import { isId } from "../slots/random-id.ts";
import { receiveRaw } from "./raw-upload.ts";
import { readFacts, type RequestFacts } from "./request-facts.ts";
import {
  appendResumable,
  cancelResumable,
  createResumable,
  ensureFile,
  inspectResumable,
} from "./resumable-upload.ts";
import { ownerOf, tagOfOwner, type PresentedSlot } from "../slots/slot-token.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";
import { uploadError } from "../slots/upload-error.ts";

/** Path of the slots below the endpoint. */
export const slotsPath = "/uploads/";

interface Visit {
  readonly request: PlainRequest;
  readonly slot: PresentedSlot;
  /** Absolute URL of the slot. */
  readonly slotUrl: string;
  readonly fileId: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * Makes the route that answers requests below `<endpoint>/uploads/`. The order is fixed: Host and Origin, by the handler →
 * token → bearer → principal → rate → file → quota → headers → body. What is refused leaves nothing in storage.
 */
export function createUploadRoutes(parts: UploadsParts, base: string): Routes {
  const prefix = `${base}${slotsPath}`;
  const { host } = parts;

  async function answer(request: PlainRequest, rest: string): Promise<Reply> {
    const [token = "", fileId, ...more] = rest.split("/");
    const allowed = fileId === undefined ? slotMethods : fileMethods;
    if (!allowed.includes(request.method))
      return problem(405, { headers: ["Allow", [...allowed, "OPTIONS"].join(", ")] });
    const step = stepOf(request);
    const address = host.addressOf(callerOf(request));
    const entry =
      step && host.beginAudit({ action: "upload", step, address }, (name) => request.header(name));
    let received = 0;
    let slot: PresentedSlot | undefined;
    let isHeld = false;
    const work = async (): Promise<Reply> => {
      try {
        slot = parts.sealer.open(token, Date.now());
        if (entry) entry.facts.grant = slot.uploadId;
        await ensureHolder(parts, slot, request);
        isHeld = true;
        const owner = tagOfOwner(slot.owner);
        if (entry) entry.facts.principal = owner;
        await host.usage.admit(owner, "request");
        if (more.length > 0 || (fileId !== undefined && !isId(fileId))) throw unknown();
        const { signal } = request;
        const reply = await serve(
          parts,
          {
            request,
            slot,
            slotUrl: `${host.endpoint.url}${slotsPath}${token}`,
            fileId,
            signal: AbortSignal.any(signal ? [signal, parts.closing] : [parts.closing]),
          },
          (count) => void (received += count),
        );
        await entry?.conclude("complete", { bytes: received });
        return reply;
      } catch (error) {
        const told = isHeld ? error : await host.failures.judge(error, address, request.signal);
        return refuse(error, { told, entry, slot, isHeld, received, request });
      }
    };
    return entry ? entry.run(work) : work();
  }

  function refuse(
    error: unknown,
    about: {
      /** What the client is told. */
      readonly told: unknown;
      readonly entry: AuditEntry | undefined;
      readonly slot: PresentedSlot | undefined;
      /** The request comes from the holder of the slot. */
      readonly isHeld: boolean;
      readonly received: number;
      readonly request: PlainRequest;
    },
  ): Reply {
    const { told, entry, slot, isHeld, received, request } = about;
    const code = SluiceError.is(error) ? error.code : "internal";
    const isOurs = !SluiceError.is(error) || faults.has(error.code);
    const isGone = code === "interrupted" || request.signal?.aborted === true;
    const outcome = isGone ? "aborted" : isOurs ? "failed" : "denied";
    entry?.end(outcome, { reason: code, bytes: received });
    if (!entry && slot && outcome === "denied") {
      const address = host.addressOf(callerOf(request));
      const principal = isHeld ? tagOfOwner(slot.owner) : undefined;
      host
        .beginAudit({ action: "upload", step: "inspect", grant: slot.uploadId, address, principal })
        .end("denied", { reason: code });
    }
    if (outcome === "failed") host.onError(error);
    if (parts.leaving.aborted)
      return problem(503, { reason: "draining", headers: ["Retry-After", "1"] });
    return refusalOf(told, slot);
  }

  return (path) => {
    if (!path.startsWith(prefix)) return undefined;
    const rest = path.slice(prefix.length);
    return {
      kind: "slot",
      get credential() {
        return isSelfAuthenticating(parts, rest) ? "url" : "bearer";
      },
      rest,
      cors: slotCors,
      answer(request) {
        const reply = answer(request, rest);
        const forget = (): void => void parts.underWay.delete(reply);
        parts.underWay.add(reply);
        reply.then(forget, forget);
        return reply;
      },
    };
  };
}

/** True for the URL of a slot of ours that lets its holder send, also after its time: then it says so. */
function isSelfAuthenticating({ sealer }: UploadsParts, rest: string): boolean {
  const [token = ""] = rest.split("/", 1);
  try {
    return sealer.open(token, Date.now()).auth === "self";
  } catch (error) {
    return SluiceError.is(error) && error.code === "expired";
  }
}

const slotMethods = ["POST", "PUT", "GET"];
const fileMethods = ["HEAD", "PATCH", "DELETE"];
const faults: ReadonlySet<string> = new Set(["internal", "unavailable", "no_space"]);

/** What is recorded of a request; looking is not, unless it is refused. */
function stepOf({ method }: PlainRequest): "receive" | "discard" | undefined {
  if (method === "DELETE") return "discard";
  return method === "POST" || method === "PUT" || method === "PATCH" ? "receive" : undefined;
}

/** The bearer of a bound slot must be its principal; a page that sends without one must be ours. */
async function ensureHolder(
  { host }: UploadsParts,
  slot: PresentedSlot,
  request: PlainRequest,
): Promise<void> {
  if (slot.auth === "self") {
    const site = request.header("sec-fetch-site");
    // an origin that came this far is an allowed one
    const isForeign = site !== undefined && site !== "same-origin" && site !== "none";
    if (isForeign && request.header("origin") === undefined)
      throw uploadError("permission_denied", "another site may not send here");
  } else {
    const { principal } = await host.identify(callerOf(request));
    if (!principal) throw uploadError("unauthenticated", "the slot is bound and nobody came");
    if (!slot.matchesPrincipal(principal) || ownerOf(principal) !== slot.owner) throw unknown();
  }
}

function callerOf(request: PlainRequest): Caller {
  return {
    header: (name) => request.header(name),
    address: request.address,
    authInfo: request.authInfo,
    sessionId: request.header("mcp-session-id"),
  };
}

async function serve(
  parts: UploadsParts,
  visit: Visit,
  onBytes: (count: number) => void,
): Promise<Reply> {
  const { request, slot, fileId, signal } = visit;
  const { ledger } = parts;
  if (fileId === undefined && request.method === "GET") {
    const leave = await ledger.ask(slot.owner);
    try {
      return await overviewReply(parts, slot, signal);
    } finally {
      await leave();
    }
  }
  if (fileId !== undefined) await ensureFile(parts, slot, fileId, signal);
  if (fileId !== undefined && request.method !== "PATCH") {
    const leave = await ledger.ask(slot.owner);
    try {
      if (request.method === "HEAD")
        return offsetReply(slot, await inspectResumable(parts, slot, fileId, signal));
      await cancelResumable(parts, slot, fileId, signal);
      return { status: 204, headers: ["Cache-Control", "no-store"] };
    } finally {
      await leave();
    }
  }
  const leave = await ledger.enter(slot.owner);
  try {
    const facts = readFacts(request);
    const { body } = request;
    return await receive(parts, visit, { slot, facts, body, signal, onBytes });
  } finally {
    await leave();
  }
}

async function receive(parts: UploadsParts, visit: Visit, arrival: Arrival): Promise<Reply> {
  const { slot, slotUrl, fileId, request } = visit;
  const { facts } = arrival;
  if (fileId !== undefined) {
    if (!isPartial(facts))
      throw uploadError("unsupported", `a step has the type ${PARTIAL_UPLOAD_TYPE}`);
    const file = await appendResumable(parts, arrival, fileId);
    return steppedReply(slot, file, { location: `${slotUrl}/${fileId}`, isNew: false });
  }
  const isForm = /^multipart\//i.test(facts.contentType ?? "");
  if (facts.complete !== undefined && !isForm) {
    const file = await createResumable(parts, arrival);
    return steppedReply(slot, file, { location: `${slotUrl}/${file.fileId}`, isNew: true });
  }
  if (!isForm) return storedReply(slot.uploadId, await receiveRaw(parts, arrival));
  if (request.method !== "POST" || facts.complete !== undefined)
    throw uploadError("unsupported", "a form is sent by POST and in one piece");
  // only forms need it, and it needs streams of Node, which other runtimes may lack
  const { createFastifyParser } = await import("./multipart-parser.ts");
  return storedReply(slot.uploadId, await receiveForm(parts, arrival, createFastifyParser));
}

function isPartial({ contentType }: RequestFacts): boolean {
  return contentType?.split(";")[0]?.trim().toLowerCase() === PARTIAL_UPLOAD_TYPE;
}

const slotCors: CorsTerms = {
  methods: [...slotMethods, ...fileMethods],
  headers:
    "Authorization, Content-Type, Content-Disposition, Repr-Digest, Upload-Complete, Upload-Offset, Upload-Length, Mcp-Session-Id",
  exposed: "Location, Upload-Offset, Upload-Complete, Upload-Length, Upload-Limit",
  options: ["Accept-Patch", PARTIAL_UPLOAD_TYPE],
};

function unknown(): SluiceError {
  return uploadError("not_found", "there is no such upload");
}
