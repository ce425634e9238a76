import type { Principal, SluiceError } from "@sluice/core";
import { createTextSealer, definedMembers, type TextSealer } from "@sluice/core/internal";
import type { Host } from "@sluice/server/internal";
import { z } from "zod/v4";
import { tryPut } from "../slots/put-once.ts";
import type { Slot } from "../slots/slots.ts";
import { uploadError } from "../slots/upload-error.ts";
import type { Fields } from "../elicitation/fields.ts";
import { questionContext } from "./pending-uploads.ts";

/** What a server must remember between its question and the answer, kept by the client under a seal. */
export interface QuestionState {
  /** Unix milliseconds. */
  readonly expiresAt: number;
  /** Field → its slot. */
  readonly slots: Readonly<Record<string, Pick<Slot, "uploadId" | "expiresAt">>>;
  /** The upload page on which the user answers, where the client has no files of its own to send. */
  readonly pageId?: string;
}

/** What a state belongs to. Another principal, endpoint or question does not open it. */
export interface QuestionContext {
  readonly principal: Principal | undefined;
  readonly message: string;
  readonly fields: Fields;
  /** In whose share of the state store it counts that the state was used, as `Identity` says. */
  readonly owner?: string | undefined;
}

/** Seals and opens the states of questions. That each is used once is settled in the state store of the server. */
export class QuestionStates {
  readonly #host: Pick<Host, "endpoint" | "keys" | "stores">;
  readonly #sealer: TextSealer;

  constructor(host: Pick<Host, "endpoint" | "keys" | "stores">) {
    this.#host = host;
    this.#sealer = createTextSealer({ keys: host.keys, purpose: "elicitation" });
  }

  seal(state: QuestionState, context: QuestionContext): string {
    const text = JSON.stringify({ ...state, id: crypto.randomUUID() });
    return this.#sealer.seal(text, this.#contextOf(context));
  }

  /** The state, once: `invalid_argument` for what is not ours, altered, or was given back before; `expired` after its time. */
  async open(sealed: unknown, context: QuestionContext): Promise<QuestionState> {
    if (typeof sealed !== "string") throw foreign();
    const text = this.#sealer.unseal(sealed, this.#contextOf(context));
    const parsed = stateSchema.safeParse(JSON.parse(text));
    if (!parsed.success) throw foreign();
    const { id, pageId, ...state } = parsed.data;
    const now = Date.now();
    if (now >= state.expiresAt)
      throw uploadError("expired", "the question has expired; call the tool again");
    const { owner = "" } = context;
    const times = { now, expiresAt: state.expiresAt, owner };
    if (!(await tryPut(this.#host.stores.state, `elicitation-${id}`, new Uint8Array(), times)))
      throw foreign();
    return { ...state, ...definedMembers({ pageId }) };
  }

  #contextOf(context: QuestionContext): string[] {
    return [this.#host.endpoint.url, ...questionContext(context)];
  }
}

const stateSchema = z.object({
  id: z.string(),
  expiresAt: z.number(),
  slots: z.record(z.string(), z.object({ uploadId: z.string(), expiresAt: z.number() })),
  pageId: z.string().optional(),
});

function foreign(): SluiceError {
  return uploadError(
    "invalid_argument",
    "the request state belongs to another question, or was used before; call the tool again",
  );
}
