import { SluiceError } from "@sluice/core";
import { PARTIAL_UPLOAD_TYPE } from "@sluice/core/wire";
import type { Caller } from "@sluice/server";
import { problem, type AuditEntry, type Host, type Reply } from "@sluice/server/transport";
import type { CorsTerms, PlainRequest, Routes } from "@sluice/transport-http";
import { refusalOf } from "./answers.ts";
import type { SlotRequest } from "./slot-requests.ts";
import type { OpenRequests } from "../slots/open-requests.ts";
import { isId } from "../slots/random-id.ts";
import { ownerOf, tagOfOwner, type PresentedSlot, type SlotSealer } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";

/** Path of the slots below the endpoint. */
export const slotsPath = "/uploads/";

/**
 * Makes the route that answers requests below `<endpoint>/uploads/`. The order is fixed: Host and Origin, by the handler →
 * token → bearer → principal → rate → file → quota → headers → body. What is refused leaves nothing in storage.
 */
export function createUploadRoutes(
  {
    host,
    sealer,
    requests,
    serve,
  }: {
    readonly host: Host;
    readonly sealer: SlotSealer;
    readonly requests: OpenRequests;
    readonly serve: (visit: SlotRequest) => Promise<Reply>;
  },
  base: string,
): Routes {
  const prefix = `${base}${slotsPath}`;

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
        slot = sealer.open(token, Date.now());
        if (entry) entry.facts.grant = slot.uploadId;
        await ensureHolder(host, slot, request);
        isHeld = true;
        const owner = tagOfOwner(slot.owner);
        if (entry) entry.facts.principal = owner;
        await host.usage.admit(owner, "request");
        if (more.length > 0 || (fileId !== undefined && !isId(fileId))) throw unknown();
        const { signal } = request;
        const { closing } = requests;
        const reply = await serve({
          request,
          slot,
          slotUrl: `${host.endpoint.url}${slotsPath}${token}`,
          fileId,
          signal: AbortSignal.any(signal ? [signal, closing] : [closing]),
          onBytes: (count) => void (received += count),
        });
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
    if (requests.leaving.aborted)
      return problem(503, { reason: "draining", headers: ["Retry-After", "1"] });
    return refusalOf(told, slot);
  }

  return (path) => {
    if (!path.startsWith(prefix)) return undefined;
    const rest = path.slice(prefix.length);
    return {
      kind: "slot",
      get credential() {
        return isSelfAuthenticating(sealer, rest) ? "url" : "bearer";
      },
      cors: slotCors,
      answer: (request) => requests.track(answer(request, rest)),
    };
  };
}

/** True for the URL of a slot of ours that lets its holder send, also after its time: then it says so. */
function isSelfAuthenticating(sealer: SlotSealer, rest: string): boolean {
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

/** The audit step of a request; one that only looks has none, unless it is refused. */
function stepOf({ method }: PlainRequest): "receive" | "discard" | undefined {
  if (method === "DELETE") return "discard";
  return method === "POST" || method === "PUT" || method === "PATCH" ? "receive" : undefined;
}

/** The bearer of a bound slot must be its principal; a page that sends without one must be ours. */
async function ensureHolder(host: Host, slot: PresentedSlot, request: PlainRequest): Promise<void> {
  if (slot.auth === "self") {
    const site = request.header("sec-fetch-site");
    // an origin that came this far is an allowed one
    const isForeign = site !== undefined && site !== "same-origin" && site !== "none";
    if (isForeign && request.header("origin") === undefined)
      throw uploadError("permission_denied", "another site may not send here");
  } else {
    const { principal } = await host.identify(callerOf(request));
    if (!principal)
      throw uploadError(
        "unauthenticated",
        "the slot is bound, and the request has no bearer token",
      );
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
