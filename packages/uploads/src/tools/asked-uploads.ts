import { unlessMissing } from "@sluice/storage/plugin";
import type { AnyCall } from "@sluice/server";
import { callInV2, type Host } from "@sluice/server/internal";
import { awaitArrival } from "../ask/arrival.ts";
import {
  beginUpload,
  type BegunUpload,
  identifyAsker,
  reserveQuestion,
} from "../ask/reserve-question.ts";
import type { AskingCall } from "../ask/confirm-answer.ts";
import type { FileField } from "../elicitation/fields.ts";
import { unknownUpload, type PendingUploads, type UploadPurpose } from "../ask/pending-uploads.ts";
import type { FileUris } from "../files-sep-2631/file-uri.ts";
import type { UploadPages } from "../page/upload-pages.ts";
import type { ClaimedFile, Slots } from "../slots/slots.ts";
import { graceMs } from "../store/upload-state.ts";

/** What a file is asked for with. */
interface WantedFile {
  /** For the user to read. */
  readonly message: string;
  readonly field: FileField;
  readonly ttlMs?: number | undefined;
}

/** What has come for an upload id. */
export type CheckedUpload = BegunUpload &
  (
    | { readonly status: "received"; readonly file: ClaimedFile; readonly uri: string }
    /** `isUndone`: the file is there, and its user has not pressed Done. */
    | { readonly status: "waiting"; readonly isUndone: boolean }
    | { readonly status: "declined" }
  );

/** Files that a model asks for by a tool, for the arguments of other tools. */
export interface AskedUploads {
  request(call: AnyCall, wanted: WantedFile): Promise<BegunUpload>;
  /** Waits for the file, for at most 20 s. Rejects with `not_found` for an id that is not the caller's, or over. */
  check(call: AnyCall, uploadId: string): Promise<CheckedUpload>;
}

/** Hosts give up on a call after 30 s or more. */
const waitMs = 20_000;
const wayOfPages = { kind: "page" } as const;

/** Makes them for one server. */
export function createAskedUploads({
  host,
  slots,
  pages,
  pending,
  uris,
}: {
  readonly host: Host;
  readonly slots: Pick<Slots, "reserve" | "received">;
  readonly pages: UploadPages;
  readonly pending: PendingUploads;
  readonly uris: FileUris;
}): AskedUploads {
  async function open(uploadId: string, caller: Asker): Promise<BegunUpload> {
    return { uploadId, upload: await pending.find(uploadId, purposeOf(caller)) };
  }

  async function uriOf({ uploadId, upload }: BegunUpload, file: ClaimedFile, caller: Asker) {
    const { name, size, mimeType, sha256 } = file;
    // what was never used is swept then
    const expiresAt = upload.expiresAt + graceMs;
    const handle = { kind: "upload", uploadId, name, size, mimeType, sha256, expiresAt } as const;
    return uris.format(handle, { principal: caller.principal, share: caller.owner });
  }

  return {
    async request(call, { message, field, ttlMs }) {
      const { mcp, ctx } = callInV2(call);
      const caller = await identifyAsker(host, mcp, ctx);
      const request = { message, fields: { file: field }, ttlMs };
      const reserved = await reserveQuestion(slots, caller, wayOfPages, request);
      const ends = { endsWithSlot: true };
      return beginUpload({ host, pages, pending }, reserved, purposeOf(caller), ends);
    },

    async check(call, uploadId) {
      const { mcp, ctx } = callInV2(call);
      const { signal } = ctx.mcpReq;
      const caller = await identifyAsker(host, mcp, ctx);
      const { principal } = caller;
      const upload = await open(uploadId, caller);
      const awaited = { principal, pageId: uploadId, slotIds: [uploadId], takesSent: true, signal };
      const arrival = await awaitArrival({ pages, slots }, awaited, waitMs);
      if (arrival.kind === "waiting")
        return { ...upload, status: "waiting", isUndone: arrival.arrivedFiles > 0 };
      // also what another tool has used since
      const [file] = (await unlessMissing(slots.received(principal, uploadId, { signal }))) ?? [];
      if (file)
        return { ...upload, status: "received", file, uri: await uriOf(upload, file, caller) };
      if ((await pages.statusOf(uploadId)) === "declined") return { ...upload, status: "declined" };
      throw unknownUpload();
    },
  };
}

type Asker = Pick<AskingCall, "principal" | "owner">;

/** No tool's question has empty fields, so ids of questions do not open here, nor these ids there. */
function purposeOf({ principal, owner }: Asker): UploadPurpose {
  return { principal, owner, message: "", fields: {} };
}
