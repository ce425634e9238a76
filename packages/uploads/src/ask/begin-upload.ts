import type { Host } from "@sluice/server/transport";
import type { UploadPages } from "../page/upload-pages.ts";
import type { PendingUpload, PendingUploads, UploadPurpose } from "./pending-uploads.ts";
import type { ReservedQuestion } from "./reserve-question.ts";

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
    /** Files alone are no answer: who sends them also says when they are all there. */
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
  const kept = [...slots].map(([name, slot]) => [
    name,
    { uploadId: slot.uploadId, expiresAt: slot.expiresAt, terms: slot.terms },
  ]);
  const upload = { expiresAt, slots: Object.fromEntries(kept), pageUrl, uploadUrl };
  await pending.keep(uploadId, upload, purpose);
  return { uploadId, upload };
}
