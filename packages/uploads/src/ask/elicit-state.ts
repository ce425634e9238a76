import { createTextSealer, type SluiceError, type Principal } from "@sluice/core";
import type { Host } from "@sluice/server/transport";
import { z } from "zod/v4";
import type { Slot } from "../slots/slots.ts";
import { codeOf, uploadError } from "../slots/upload-error.ts";
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

/** Seals and opens the states of questions. */
export interface QuestionStates {
  seal(state: QuestionState, context: QuestionContext): string;
  /** The state, once: `invalid_argument` for what is not ours, altered, or was given back before; `expired` after its time. */
  open(sealed: unknown, context: QuestionContext): Promise<QuestionState>;
}

/** Makes the states of one server. That each is used once is settled in its state store. */
export function createQuestionStates(host: Host): QuestionStates {
  const sealer = createTextSealer({ keys: host.keys, purpose: "elicitation" });

  const contextOf = (context: QuestionContext): string[] => [
    host.endpoint.url,
    ...questionContext(context),
  ];

  return {
    seal(state, context) {
      const id = crypto.randomUUID();
      return sealer.seal(JSON.stringify({ ...state, id }), contextOf(context));
    },
    async open(sealed, context) {
      if (typeof sealed !== "string") throw foreign();
      const parsed = stateSchema.safeParse(JSON.parse(sealer.unseal(sealed, contextOf(context))));
      if (!parsed.success) throw foreign();
      const { id, pageId, ...state } = parsed.data;
      const now = Date.now();
      if (now >= state.expiresAt)
        throw uploadError("expired", "the question's time is over; call the tool again");
      await host.state
        .put(`elicitation-${id}`, new Uint8Array(), {
          now,
          expiresAt: state.expiresAt,
          owner: context.owner ?? "",
        })
        .catch((error: unknown) => {
          throw codeOf(error) === "already_exists" ? foreign() : error;
        });
      return { ...state, ...(pageId !== undefined && { pageId }) };
    },
  };
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
    "the request state is not that of this question, or was used before; call the tool again",
  );
}
