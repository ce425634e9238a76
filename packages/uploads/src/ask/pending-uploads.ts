import {
  createSha256,
  createTextSealer,
  principalTag,
  SluiceError,
  type Principal,
} from "@sluice/core";
import type { Host } from "@sluice/server/transport";
import { createSealedRecords } from "@sluice/state";
import { z } from "zod/v4";
import type { Slot } from "../slots/slots.ts";
import { isId } from "../slots/random-id.ts";
import { uploadError } from "../slots/upload-error.ts";

/** An upload that a tool's answer asked for, and that no call has taken up yet. */
export interface PendingUpload {
  /** Unix milliseconds. */
  readonly expiresAt: number;
  /** Field → its slot. */
  readonly slots: Readonly<Record<string, Pick<Slot, "uploadId" | "expiresAt" | "terms">>>;
  /** Where a user sends the files. */
  readonly pageUrl: string;
  /** Where a program sends them. Absent where more than files must be answered. */
  readonly uploadUrl?: string | undefined;
}

/** What an upload is asked for. Another principal or question does not open it; tools that ask the same are one. */
export interface UploadPurpose {
  readonly principal: Principal | undefined;
  /** In whose share of the state store it counts, as `Identity` says. */
  readonly owner: string | undefined;
  /** What the fields are asked for with, such as the message of a question. */
  readonly message: string;
  readonly fields: object;
}

/** Uploads that tools' answers asked for, in the state store: any process takes them up. */
export interface PendingUploads {
  keep(uploadId: string, upload: PendingUpload, purpose: UploadPurpose): Promise<void>;
  /** Rejects with `not_found` for what is unknown, over, taken, or of another purpose. */
  find(uploadId: string, purpose: UploadPurpose): Promise<PendingUpload>;
  /** Takes it up: true for one call of all that try. */
  take(uploadId: string): Promise<boolean>;
}

/** How long after its end an upload may still be taken up. */
const graceMs = 60_000;

/** Makes them for one server. A record is sealed for its purpose: a reader of the store learns nothing. */
export function createPendingUploads({
  endpoint,
  keys,
  state,
}: Pick<Host, "endpoint" | "keys" | "state">): PendingUploads {
  const sealer = createTextSealer({ keys, purpose: "upload-pending" });
  const records = createSealedRecords({ state, sealer, kind: "upload-pending" });
  const contextOf = (purpose: UploadPurpose): string[] => [
    endpoint.url,
    ...questionContext(purpose),
  ];
  return {
    async keep(uploadId, upload, purpose) {
      const { owner = "" } = purpose;
      const terms = { now: Date.now(), expiresAt: upload.expiresAt + graceMs, owner };
      await records.keep(uploadId, JSON.stringify(upload), contextOf(purpose), terms);
    },
    async find(uploadId, purpose) {
      if (!isId(uploadId)) throw unknownUpload();
      try {
        const text = await records.find(uploadId, contextOf(purpose), Date.now());
        return pendingSchema.parse(JSON.parse(text));
      } catch (error) {
        if (SluiceError.is(error) && error.code === "invalid_argument") throw unknownUpload();
        throw error;
      }
    },
    take: (uploadId) => records.take(uploadId, Date.now()),
  };
}

/** Ties what is sealed to a principal and a question. */
export function questionContext({
  principal,
  message,
  fields,
}: Pick<UploadPurpose, "principal" | "message" | "fields">): [string, string] {
  const asked = createSha256();
  asked.update(new TextEncoder().encode(JSON.stringify([message, fields])));
  return [principal ? principalTag(principal) : "anybody", asked.digest()];
}

/** One error for all of them: it tells nothing of the uploads of others. */
export function unknownUpload(): SluiceError {
  return uploadError(
    "not_found",
    "no upload with this upload_id waits for this call: it was used, its time is over, or it belongs to another question; call the tool again without upload_id to get a new one",
  );
}

const pendingSchema = z.object({
  expiresAt: z.number(),
  slots: z.record(
    z.string(),
    z.object({
      uploadId: z.string(),
      expiresAt: z.number(),
      terms: z.object({
        accept: z.array(z.string()),
        maxBytes: z.number(),
        maxFiles: z.number(),
      }),
    }),
  ),
  pageUrl: z.string(),
  uploadUrl: z.string().optional(),
});
