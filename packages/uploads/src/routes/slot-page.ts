import type { Reply } from "@sluice/server/transport";
import { questionOf } from "../elicitation/fields.ts";
import { tagOfOwner, type OpenSlot } from "../slots/slot-token.ts";
import { codeOf } from "../slots/upload-error.ts";
import { readState } from "../store/upload-state.ts";
import type { UploadStorage } from "../store/upload-storage.ts";
import { pageAssets } from "../page/page-assets.ts";
import { failurePage, pageOf } from "../page/page-html.ts";
import { htmlReply } from "./page-route.ts";
import type { UploadPageStore } from "../page/upload-pages.ts";

/** What a browser gets that opens the URL of a slot. */
export interface SlotPage {
  /** Leads to the upload page of the slot: that of its question, or one that asks for its files. */
  show(slot: OpenSlot, slotUrl: string, signal: AbortSignal): Promise<Reply>;
  /** Says on a page why there is none. */
  refuse(error: unknown): Reply;
}

/** Makes it for the slots of one endpoint. The page of a slot has the slot's id. */
export function createSlotPage({
  pages,
  storage,
  host,
}: {
  readonly pages: UploadPageStore;
  readonly storage: UploadStorage;
  /** Host name of the endpoint, for the user to read. */
  readonly host: string;
}): SlotPage {
  async function ask(slot: OpenSlot, url: string): Promise<string> {
    const { uploadId, owner, expiresAt, terms } = slot;
    const isOne = terms.maxFiles === 1;
    const fields = {
      file: { type: "file", title: isOne ? "File" : "Files", multiple: !isOne },
    } as const;
    const message = isOne ? "Choose a file to send." : "Choose the files to send.";
    const slots = new Map([["file", { uploadId, url, method: "POST", expiresAt, terms } as const]]);
    const question = questionOf({ message, fields }, slots, "self");
    const share = tagOfOwner(owner);
    return pages.pageUrl({
      pageId: uploadId,
      question,
      expiresAt,
      owner: share,
      endsWithSlot: true,
    });
  }

  return {
    async show(slot, slotUrl, signal) {
      const { uploadId, expiresAt } = slot;
      if ((await pages.statusOf(uploadId)) !== "unknown")
        return seeOther(pages.urlOf(uploadId, expiresAt));
      const { phase, places } = await readState(storage, uploadId, signal);
      if (phase === "confirmed") {
        const ending = { phase: places.length > 0 ? "accepted" : "cancelled" } as const;
        return htmlReply("GET", { status: 200, text: pageOf(ending, host, pageAssets) });
      }
      try {
        return seeOther(await ask(slot, slotUrl));
      } catch (error) {
        // another request of the same browser made it
        if (codeOf(error) !== "already_exists") throw error;
        return seeOther(pages.urlOf(uploadId, expiresAt));
      }
    },
    refuse: (error) => htmlReply("GET", failurePage(error, pageAssets)),
  };
}

/** The URL holds a secret: no cache keeps it. */
function seeOther(url: string): Reply {
  const headers = ["Location", url, "Content-Length", "0", "Cache-Control", "private, no-store"];
  return { status: 303, headers: [...headers, "Referrer-Policy", "no-referrer"] };
}
