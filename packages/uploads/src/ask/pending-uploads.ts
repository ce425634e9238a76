import { principalTag, type SluiceError, type Principal } from "@sluice/core";
import { createSha256, createTextSealer } from "@sluice/core/internal";
import type { Host } from "@sluice/server/internal";
import type { RecordTerms } from "@sluice/state";
import { createSealedRecords, type SealedRecords } from "@sluice/state/internal";
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
  /** Where a program sends them. Absent if more than files must be answered. */
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

/** How long after its end an upload may still be taken up. */
const graceMs = 60_000;

/**
 * Uploads that tools' answers asked for, in the state store: any process takes them up. A record is sealed for its
 * purpose: a reader of the store learns nothing.
 */
export class PendingUploads {
  readonly #endpointUrl: string;
  readonly #records: SealedRecords;
  readonly #taken: SealedRecords;
  readonly #outcomes: SealedRecords;

  constructor({ endpoint, keys, stores: { state } }: Pick<Host, "endpoint" | "keys" | "stores">) {
    const sealer = createTextSealer({ keys, purpose: "upload-pending" });
    this.#endpointUrl = endpoint.url;
    this.#records = createSealedRecords({ state, sealer, kind: "upload-pending" });
    this.#taken = createSealedRecords({ state, sealer, kind: "upload-taken-up" });
    this.#outcomes = createSealedRecords({ state, sealer, kind: "upload-outcome" });
  }

  async keep(uploadId: string, upload: PendingUpload, purpose: UploadPurpose): Promise<void> {
    const text = JSON.stringify(upload);
    await this.#records.keep(uploadId, text, this.#contextOf(purpose), termsOf(upload, purpose));
  }

  /** Rejects with `not_found` for what is unknown, over, or of another purpose. */
  async find(uploadId: string, purpose: UploadPurpose): Promise<PendingUpload> {
    if (!isId(uploadId)) throw unknownUpload();
    try {
      const text = await this.#records.find(uploadId, this.#contextOf(purpose), Date.now());
      return pendingSchema.parse(JSON.parse(text));
    } catch (error) {
      if (codeOf(error) === "invalid_argument") throw unknownUpload();
      throw error;
    }
  }

  /** Takes it up: true for one call of all that try. */
  async take(uploadId: string, upload: PendingUpload, purpose: UploadPurpose): Promise<boolean> {
    try {
      const terms = termsOf(upload, purpose);
      await this.#taken.keep(uploadId, "", this.#contextOf(purpose), terms);
      return true;
    } catch (error) {
      if (codeOf(error) === "already_exists") return false;
      throw error;
    }
  }

  /** Keeps the outcome for as long as the upload can be found. */
  async settle(
    uploadId: string,
    { upload, outcome }: { readonly upload: PendingUpload; readonly outcome: UploadOutcome },
    purpose: UploadPurpose,
  ): Promise<void> {
    const text = JSON.stringify(outcome);
    await this.#outcomes.keep(uploadId, text, this.#contextOf(purpose), termsOf(upload, purpose));
  }

  /** `undefined` before `settle`. */
  async outcomeOf(uploadId: string, purpose: UploadPurpose): Promise<UploadOutcome | undefined> {
    try {
      const text = await this.#outcomes.find(uploadId, this.#contextOf(purpose), Date.now());
      return outcomeSchema.parse(JSON.parse(text));
    } catch (error) {
      if (codeOf(error) === "invalid_argument") return undefined;
      throw error;
    }
  }

  #contextOf(purpose: UploadPurpose): string[] {
    return [this.#endpointUrl, ...questionContext(purpose)];
  }
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
  const questionHash = createSha256();
  questionHash.update(new TextEncoder().encode(JSON.stringify([message, fields])));
  return [principal ? principalTag(principal) : "anybody", questionHash.digest()];
}

/** One error for all of them: it tells nothing of the uploads of others. */
export function unknownUpload(): SluiceError {
  return uploadError(
    "not_found",
    "no upload with this upload_id waits for this call: its files were used and removed, it has expired, or it belongs to another question; call the tool again without upload_id to get a new one",
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
