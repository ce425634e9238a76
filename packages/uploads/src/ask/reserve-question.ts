import { tokenLifetimes, type Principal } from "@sluice/core";
import type { Slot, Slots } from "../slots/slots.ts";
import {
  fileFieldsOf,
  questionOf,
  termsOf,
  type BinaryQuestion,
  type Fields,
} from "./elicit-fields.ts";
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
export function reserveQuestion(
  slots: Pick<Slots, "reserve">,
  principal: Principal | undefined,
  way: AskingWay,
  request: { readonly message: string; readonly fields: Fields; readonly ttlMs?: number },
): ReservedQuestion {
  const isPage = way.kind === "page";
  const auth = isPage || !principal ? "self" : "bound";
  const { maxTtlMs } = tokenLifetimes.upload[auth];
  const ttlMs = Math.min(request.ttlMs ?? defaultTtlMs, maxTtlMs);
  const reserved = new Map<string, Slot>();
  for (const [name, field] of fileFieldsOf(request.fields)) {
    const terms = termsOf(field, isPage ? {} : way.limits);
    reserved.set(name, slots.reserve(principal, terms, { ttlMs, selfAuthenticating: isPage }));
  }
  if (reserved.size === 0) throw new TypeError("requestFiles: no field is a file");
  const question = questionOf(request, reserved, auth);
  return { question, slots: reserved, expiresAt: Date.now() + ttlMs };
}
