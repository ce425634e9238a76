import type { InputRequiredResult, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import { sleep, systemClock } from "@sluice/core/async";
import { readAnswer, type Answer, type ExpectedSlot } from "./elicit-answer.ts";
import {
  fileFieldsOf,
  type AnsweredFiles,
  type AnsweredValues,
  type Fields,
} from "./elicit-fields.ts";
import type { Slot, Slots, UploadedFile } from "../slots/slots.ts";

/** How it went. */
export type FilesOutcome<F extends Fields = Fields> =
  /** Confirmed files, yours until you remove them, and the other fields. */
  | {
      readonly action: "accept";
      readonly files: AnsweredFiles<F>;
      readonly values: AnsweredValues<F>;
    }
  /** The user said no, or closed the question. Nothing is kept. */
  | { readonly action: "decline" | "cancel" }
  /** Modern era: return `result` from the tool. The client asks the user and repeats the call. */
  | { readonly action: "ask"; readonly result: InputRequiredResult };

/** What is known of a question while it is being answered. */
export interface Settling<F extends Fields = Fields> {
  readonly ctx: ServerContext;
  readonly principal: Principal | undefined;
  /** In whose share of the state store its records count. */
  readonly owner: string | undefined;
  readonly message: string;
  readonly fields: F;
}

/** What to settle. */
export interface GivenSettlement {
  readonly expected: ReadonlyMap<string, ExpectedSlot>;
  /** The answer, not believed yet. */
  readonly raw: unknown;
  /** Whether a page gave it, which compared it with the files: what came since then is removed. */
  readonly isFromPage: boolean;
}

/** Ends questions, one way or the other. */
export interface Settlement {
  /** Believes an answer or keeps nothing: files become readable when all of them agree. */
  settle<F extends Fields>(settling: Settling<F>, given: GivenSettlement): Promise<FilesOutcome<F>>;
  /** Keeps nothing of what came, and closes the slots. Never rejects. */
  revoke(
    principal: Principal | undefined,
    slots: Iterable<readonly [string, Pick<Slot, "uploadId" | "expiresAt">]>,
  ): Promise<void>;
}

/** Makes it for slots; what cannot be closed or removed goes to `onError`, and is swept later. */
export function createSettlement(slots: Slots, onError: (error: unknown) => void): Settlement {
  const revoke: Settlement["revoke"] = async (principal, unwanted) => {
    const removals = [...unwanted].map(([, slot]) => slots.revoke(principal, slot));
    for (const removal of await Promise.allSettled(removals))
      if (removal.status === "rejected") onError(removal.reason);
  };

  return {
    revoke,
    async settle<F extends Fields>(
      { principal, ctx, fields }: Settling<F>,
      { expected, raw, isFromPage }: GivenSettlement,
    ): Promise<FilesOutcome<F>> {
      const { signal } = ctx.mcpReq;
      const confirmed = new Map<string, readonly UploadedFile[]>();
      let answer: Answer;
      try {
        answer = await readAnswer(fields, expected, raw);
        for (const [name, claims] of answer.action === "accept" ? answer.files : []) {
          if (claims.length === 0) continue;
          const { uploadId } = expected.get(name)!;
          const unnamed = isFromPage ? "remove" : "refuse";
          const confirm = () => slots.confirm(principal, uploadId, claims, { signal, unnamed });
          confirmed.set(name, await patiently(confirm, signal));
        }
      } catch (error) {
        const kept = [...confirmed.values()].flat();
        await Promise.allSettled(kept.map((file) => file.remove()));
        await revoke(principal, expected);
        throw error;
      }
      const unused = [...expected].filter(([name]) => !confirmed.has(name));
      await revoke(principal, unused);
      if (answer.action !== "accept") return answer;
      const files = fileFieldsOf(fields).map(([name, { multiple }]) => {
        const named = confirmed.get(name) ?? [];
        return [name, multiple ? named : named[0]];
      });
      return {
        action: "accept",
        files: Object.fromEntries(files) as AnsweredFiles<F>,
        values: answer.values as AnsweredValues<F>,
      };
    },
  };
}

/** How long a scanner may take to know what a file is: clients give up on a request after 60 s. */
const scannerMs = 45_000;

async function patiently<T>(confirm: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const until = systemClock.now() + scannerMs;
  for (;;) {
    try {
      return await confirm();
    } catch (error) {
      const leftMs = until - systemClock.now();
      if (!SluiceError.is(error) || error.code !== "unavailable" || leftMs <= 0) throw error;
      await sleep(Math.min(error.retryAfterMs ?? 1_000, leftMs), signal);
    }
  }
}
