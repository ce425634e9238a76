import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import { tokenLifetimes } from "@sluice/core";
import { callerOf, type Host } from "@sluice/server/internal";
import {
  type BinaryQuestion,
  type Fields,
  fileFieldsOf,
  questionOf,
  termsOf,
} from "../elicitation/fields.ts";
import type { UploadPages } from "../page/upload-pages.ts";
import { userOf } from "../slots/slot-token.ts";
import type { Slot, Slots } from "../slots/slots.ts";
import { uploadError } from "../slots/upload-error.ts";
import type { AskingCall } from "./confirm-answer.ts";
import type { AskingWay } from "./elicit-way.ts";
import type { PendingUpload, PendingUploads, UploadPurpose } from "./pending-uploads.ts";

/** The caller of a tool that asks for files. Rejects with `unauthenticated` for one that gets none. */
export async function identifyAsker(
  host: Pick<Host, "identify">,
  mcp: McpServer,
  ctx: ServerContext,
): Promise<Pick<AskingCall, "principal" | "owner">> {
  const { principal, mayMint, owner } = await host.identify(callerOf(ctx, mcp));
  if (!mayMint) throw uploadError("unauthenticated", "the caller is not authenticated");
  return { principal: userOf(principal), owner };
}

/** A question whose slots are reserved. */
export interface ReservedQuestion {
  readonly question: BinaryQuestion;
  /** Field → its slot. */
  readonly slots: ReadonlyMap<string, Slot>;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

const defaultTtlMs = 900_000;

/** Reserves a slot for each file field, and writes the question. Throws a `TypeError` when no field is a file. */
export async function reserveQuestion(
  slots: Pick<Slots, "reserve">,
  { principal, owner }: Pick<AskingCall, "principal" | "owner">,
  way: AskingWay,
  request: {
    readonly message: string;
    readonly fields: Fields;
    readonly ttlMs?: number | undefined;
    /** A page may also answer, which has no bearer token. */
    readonly isForPage?: boolean;
  },
): Promise<ReservedQuestion> {
  const isBinary = way.kind === "binary";
  const isBound = isBinary && request.isForPage !== true;
  const auth = isBound && principal ? "bound" : "self";
  const { maxTtlMs } = tokenLifetimes.upload[auth];
  const ttlMs = Math.min(request.ttlMs ?? defaultTtlMs, maxTtlMs);
  const reserved = new Map<string, Slot>();
  for (const [name, field] of fileFieldsOf(request.fields)) {
    const terms = termsOf(field, isBinary ? way.limits : {});
    const options = { ttlMs, selfAuthenticating: !isBound, share: owner ?? "" };
    reserved.set(name, await slots.reserve(principal, terms, options));
  }
  if (reserved.size === 0) throw new TypeError("uploads.ask: no field is a file");
  const question = questionOf(request, reserved, auth);
  return { question, slots: reserved, expiresAt: Date.now() + ttlMs };
}

/** An upload under the id that a model calls with. */
export interface BegunUpload {
  /** That of its first slot, and of its page. */
  readonly uploadId: string;
  readonly upload: PendingUpload;
}

/** Makes the page of a question whose slots authenticate themselves, and keeps the upload for the call that takes it up. */
export async function beginUpload(
  {
    host,
    pages,
    pending,
  }: {
    readonly host: Pick<Host, "tokens">;
    readonly pages: Pick<UploadPages, "pageUrl">;
    readonly pending: Pick<PendingUploads, "keep">;
  },
  { question, slots, expiresAt }: ReservedQuestion,
  purpose: UploadPurpose,
  {
    endsWithSlot = false,
    isForPage = false,
  }: {
    readonly endsWithSlot?: boolean;
    /** Files are not an answer by themselves: their sender also says when all of them have come. */
    readonly isForPage?: boolean;
  } = {},
): Promise<BegunUpload> {
  const [first] = slots.values();
  const { uploadId, url } = first!;
  const { owner } = purpose;
  const page = await pages.pageUrl({ pageId: uploadId, question, expiresAt, owner, endsWithSlot });
  // the URL of a slot leads browsers to its page; of two sealed ones that of the page is the shorter
  const pageUrl = host.tokens === "stored" ? url : page;
  const { properties, required } = question.requestedSchema;
  const needsOther = required.some((name) => properties[name]?.type !== "file");
  const uploadUrl = slots.size === 1 && !needsOther && !isForPage ? url : undefined;
  const slotEntries = [...slots].map(([name, slot]) => [
    name,
    { uploadId: slot.uploadId, expiresAt: slot.expiresAt, terms: slot.terms },
  ]);
  const upload = { expiresAt, slots: Object.fromEntries(slotEntries), pageUrl, uploadUrl };
  await pending.keep(uploadId, upload, purpose);
  return { uploadId, upload };
}
