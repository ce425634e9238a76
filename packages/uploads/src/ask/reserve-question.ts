import { tokenLifetimes } from "@sluice/core";
import type { Slot, Slots } from "../slots/slots.ts";
import {
  fileFieldsOf,
  questionOf,
  termsOf,
  type BinaryQuestion,
  type Fields,
} from "../elicitation/fields.ts";
import type { AskingCall } from "./confirm-answer.ts";
import type { AskingWay } from "./elicit-way.ts";

/** A question whose slots are reserved. */
export interface ReservedQuestion {
  readonly question: BinaryQuestion;
  /** Field → its slot. */
  readonly slots: ReadonlyMap<string, Slot>;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

const defaultTtlMs = 900_000;

/** Reserves a slot for each file field, and writes the question. Throws a `TypeError` when no field is a file. */
export async function reserveQuestion(
  slots: Pick<Slots, "reserve">,
  { principal, owner }: Pick<AskingCall, "principal" | "owner">,
  way: AskingWay,
  request: {
    readonly message: string;
    readonly fields: Fields;
    readonly ttlMs?: number | undefined;
    /** A page may answer, too, which has no bearer token. */
    readonly isForPage?: boolean;
  },
): Promise<ReservedQuestion> {
  const isBinary = way.kind === "binary";
  const isBound = isBinary && request.isForPage !== true;
  const auth = isBound && principal ? "bound" : "self";
  const { maxTtlMs } = tokenLifetimes.upload[auth];
  const ttlMs = Math.min(request.ttlMs ?? defaultTtlMs, maxTtlMs);
  const reserved = new Map<string, Slot>();
  for (const [name, field] of fileFieldsOf(request.fields)) {
    const terms = termsOf(field, isBinary ? way.limits : {});
    const options = { ttlMs, selfAuthenticating: !isBound, share: owner ?? "" };
    reserved.set(name, await slots.reserve(principal, terms, options));
  }
  if (reserved.size === 0) throw new TypeError("requestFiles: no field is a file");
  const question = questionOf(request, reserved, auth);
  return { question, slots: reserved, expiresAt: Date.now() + ttlMs };
}
