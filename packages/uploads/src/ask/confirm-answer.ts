import type {
  CallToolResult,
  InputRequiredResult,
  ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import { sleep, systemClock } from "@sluice/core/internal";
import type { AnyCall, ExtraV1 } from "@sluice/server";
import type { PageOutcome } from "../page/page-endings.ts";
import type { UploadPages } from "../page/upload-pages.ts";
import type { Slot, Slots, UploadedFile } from "../slots/slots.ts";
import { uploadsOrigin } from "../slots/upload-error.ts";
import { readAnswer, type ElicitedAnswer, type ExpectedSlot } from "../elicitation/answer.ts";
import {
  fileFieldsOf,
  type AnsweredFiles,
  type AnsweredValues,
  type Fields,
} from "../elicitation/fields.ts";

/** The result that asks, in the SDK of the call: that of SDK v1 is always one for a model. */
export type AskingResult<Call extends AnyCall = AnyCall> = Call["ctx"] extends ExtraV1
  ? CallToolResult & { readonly structuredContent?: Record<string, unknown> }
  : CallToolResult | InputRequiredResult;

/** How it went. */
export type FilesOutcome<F extends Fields = Fields, Call extends AnyCall = AnyCall> =
  /** Confirmed files, yours until you remove them, and the other fields. */
  | {
      readonly action: "accept";
      readonly files: AnsweredFiles<F>;
      readonly values: AnsweredValues<F>;
    }
  /** The user said no, or closed the question. Nothing is kept. */
  | { readonly action: "decline" | "cancel" }
  /**
   * Return `result` from the tool. In the stateless protocol the client asks the user and repeats the call; a host
   * without elicitation gets an answer for its model, which calls the tool again with `upload_id`.
   */
  | { readonly action: "ask"; readonly result: AskingResult<Call> };

/** A call of a tool that asks, and its caller. */
export interface AskingCall<F extends Fields = Fields> {
  readonly ctx: ServerContext;
  readonly principal: Principal | undefined;
  /** In whose share of the state store its records count. */
  readonly owner: string | undefined;
  readonly message: string;
  readonly fields: F;
  /** Whether its host shows the App of the tool. */
  readonly isInApp: boolean;
  /** When its host is about to give up, by the system's clock; absent if it waits as long as it takes. */
  readonly until?: number | undefined;
}

/** A call as far as the confirmation of its answer goes. */
type ConfirmedCall<F extends Fields> = Pick<AskingCall<F>, "principal" | "fields" | "until"> & {
  readonly ctx: { readonly mcpReq: Pick<ServerContext["mcpReq"], "signal"> };
};

interface UnconfirmedAnswer {
  readonly expected: ReadonlyMap<string, ExpectedSlot>;
  /** Not validated yet. */
  readonly raw: unknown;
  /**
   * True if the upload page gave it. The page has compared it with the files, so later arrivals are removed and not
   * refused.
   */
  readonly isFromPage: boolean;
  readonly pageId: string | undefined;
}

type ReservedSlot = Pick<Slot, "uploadId" | "expiresAt">;

interface AnswerParts {
  readonly slots: Pick<Slots, "confirm" | "revoke">;
  readonly pages: Pick<UploadPages, "conclude">;
  /** Receives errors of closing and removing; leftovers are swept later. */
  readonly onError: (error: unknown) => void;
}

/** Ends questions: confirms the files of an answer, or closes the slots. */
export class AnswerConfirmation {
  readonly #parts: AnswerParts;

  constructor(parts: AnswerParts) {
    this.#parts = parts;
  }

  /** Validates an answer and confirms its files, or keeps nothing. Tells the page how it ended. */
  async confirm<F extends Fields>(
    call: ConfirmedCall<F>,
    answer: UnconfirmedAnswer,
  ): Promise<FilesOutcome<F>> {
    try {
      const outcome = await this.#confirmFiles(call, answer);
      const refusal = answer.isFromPage ? "declined" : "cancelled";
      await this.#conclude(answer.pageId, outcome.action === "accept" ? "accepted" : refusal);
      return outcome;
    } catch (error) {
      await this.#conclude(answer.pageId, call.ctx.mcpReq.signal.aborted ? "cancelled" : "failed");
      throw error;
    }
  }

  /** Ends a question without an answer: closes its slots and tells the page. Never rejects. */
  async cancel(
    principal: Principal | undefined,
    question: {
      readonly slots: ReadonlyMap<string, ReservedSlot>;
      readonly pageId: string | undefined;
    },
  ): Promise<void> {
    await this.#revoke(principal, question.slots);
    await this.#conclude(question.pageId, "cancelled");
  }

  async #confirmFiles<F extends Fields>(
    { principal, ctx, fields, until }: ConfirmedCall<F>,
    { expected, raw, isFromPage }: UnconfirmedAnswer,
  ): Promise<FilesOutcome<F>> {
    const { slots } = this.#parts;
    const { signal } = ctx.mcpReq;
    const confirmed = new Map<string, readonly UploadedFile[]>();
    let answer: ElicitedAnswer;
    try {
      answer = await readAnswer(fields, expected, raw);
      for (const [name, claims] of answer.action === "accept" ? answer.files : []) {
        if (claims.length === 0) continue;
        const { uploadId } = expected.get(name)!;
        const unnamed = isFromPage ? "remove" : "refuse";
        const confirm = () => slots.confirm(principal, uploadId, claims, { signal, unnamed });
        confirmed.set(name, await retryWhileUnavailable(confirm, until, signal));
      }
    } catch (error) {
      const files = [...confirmed.values()].flat();
      await Promise.allSettled(files.map((file) => file.remove()));
      await this.#revoke(principal, expected);
      throw error;
    }
    const unused = [...expected].filter(([name]) => !confirmed.has(name));
    await this.#revoke(principal, unused);
    if (answer.action !== "accept") return answer;
    const files = fileFieldsOf(fields).map(([name, { multiple }]) => {
      const namedFiles = confirmed.get(name) ?? [];
      return [name, multiple ? namedFiles : namedFiles[0]];
    });
    return {
      action: "accept",
      files: Object.fromEntries(files) as AnsweredFiles<F>,
      values: answer.values as AnsweredValues<F>,
    };
  }

  async #revoke(
    principal: Principal | undefined,
    unwanted: Iterable<readonly [string, ReservedSlot]>,
  ): Promise<void> {
    const { slots, onError } = this.#parts;
    const removals = [...unwanted].map(([, slot]) => slots.revoke(principal, slot));
    for (const removal of await Promise.allSettled(removals))
      if (removal.status === "rejected") onError(removal.reason);
  }

  /** Tells the page how it ended; a page that is not told says that its time is over. */
  async #conclude(pageId: string | undefined, outcome: PageOutcome): Promise<void> {
    const { pages, onError } = this.#parts;
    if (pageId !== undefined) await pages.conclude(pageId, outcome).catch(onError);
  }
}

/** How long a scanner may take to know what a file is, where the host waits so long. */
const scannerMs = 45_000;
/** How long a storage may be down before the files of an answer are given up. */
const outageMs = 10_000;

async function retryWhileUnavailable<T>(
  confirm: () => Promise<T>,
  until = Infinity,
  signal: AbortSignal,
): Promise<T> {
  const begunAt = systemClock.now();
  for (;;) {
    try {
      return await confirm();
    } catch (error) {
      if (!SluiceError.is(error) || error.code !== "unavailable") throw error;
      const maxMs = error.origin === uploadsOrigin ? scannerMs : outageMs;
      const leftMs = Math.min(begunAt + maxMs, until) - systemClock.now();
      if (leftMs <= 0 || (error.retryAfterMs ?? 0) > maxMs) throw error;
      await sleep(Math.min(error.retryAfterMs ?? 1_000, leftMs), signal);
    }
  }
}
