import {
  createSha256,
  createTextSealer,
  principalTag,
  SluiceError,
  type Principal,
} from "@sluice/core";
import type { Host } from "@sluice/server/transport";
import { createSealedRecords, type RecordTerms } from "@sluice/state";
import { z } from "zod/v4";
import { isId, type Slot } from "../slots/slots.ts";
import { codeOf, uploadError } from "../slots/upload-error.ts";

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

/** What the call made of an upload that took it up, for calls that a host repeats. */
export type UploadOutcome =
  /** Fields with at least one file, and the values of the others. */
  | {
      readonly action: "accept";
      readonly fields: readonly string[];
      readonly values: Readonly<Record<string, unknown>>;
    }
  | { readonly action: "decline" | "cancel" | "failed" };

/** Uploads that tools' answers asked for, in the state store: any process takes them up. */
export interface PendingUploads {
  keep(uploadId: string, upload: PendingUpload, purpose: UploadPurpose): Promise<void>;
  /** Rejects with `not_found` for what is unknown, over, or of another purpose. */
  find(uploadId: string, purpose: UploadPurpose): Promise<PendingUpload>;
  /** Takes it up: true for one call of all that try. */
  take(uploadId: string, upload: PendingUpload, purpose: UploadPurpose): Promise<boolean>;
  /** Keeps the outcome for as long as the upload can be found. */
  settle(
    uploadId: string,
    settled: { readonly upload: PendingUpload; readonly outcome: UploadOutcome },
    purpose: UploadPurpose,
  ): Promise<void>;
  /** `undefined` before `settle`. */
  outcomeOf(uploadId: string, purpose: UploadPurpose): Promise<UploadOutcome | undefined>;
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
  const taken = createSealedRecords({ state, sealer, kind: "upload-taken-up" });
  const outcomes = createSealedRecords({ state, sealer, kind: "upload-outcome" });
  const contextOf = (purpose: UploadPurpose): string[] => [
    endpoint.url,
    ...questionContext(purpose),
  ];
  return {
    keep: (uploadId, upload, purpose) =>
      records.keep(uploadId, JSON.stringify(upload), contextOf(purpose), termsOf(upload, purpose)),
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
    async take(uploadId, upload, purpose) {
      try {
        await taken.keep(uploadId, "", contextOf(purpose), termsOf(upload, purpose));
        return true;
      } catch (error) {
        if (codeOf(error) === "already_exists") return false;
        throw error;
      }
    },
    settle: (uploadId, { upload, outcome }, purpose) =>
      outcomes.keep(
        uploadId,
        JSON.stringify(outcome),
        contextOf(purpose),
        termsOf(upload, purpose),
      ),
    async outcomeOf(uploadId, purpose) {
      try {
        const text = await outcomes.find(uploadId, contextOf(purpose), Date.now());
        return outcomeSchema.parse(JSON.parse(text));
      } catch (error) {
        if (codeOf(error) === "invalid_argument") return undefined;
        throw error;
      }
    },
  };
}

function termsOf({ expiresAt }: PendingUpload, { owner = "" }: UploadPurpose): RecordTerms {
  return { now: Date.now(), expiresAt: expiresAt + graceMs, owner };
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
    "no upload with this upload_id waits for this call: its files were used and removed, its time is over, or it belongs to another question; call the tool again without upload_id to get a new one",
  );
}

const outcomeSchema = z.union([
  z.object({
    action: z.literal("accept"),
    fields: z.array(z.string()),
    values: z.record(z.string(), z.unknown()),
  }),
  z.object({ action: z.enum(["decline", "cancel", "failed"]) }),
]);

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
