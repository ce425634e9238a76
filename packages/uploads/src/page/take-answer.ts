import { SluiceError } from "@sluice/core";
import type { AnsweredFile } from "@sluice/core/internal";
import { readAnswer, type ExpectedSlot } from "../elicitation/answer.ts";
import type { BinaryQuestion, Fields } from "../elicitation/fields.ts";
import { matchClaims } from "../confirm/match-claims.ts";
import type { UploadRemover } from "../confirm/remove-upload.ts";
import type { LockLease, WriteLock } from "../limits/write-lock.ts";
import type { PresentedSlot, SlotTokens } from "../slots/slot-token.ts";
import { folderOf, readRecords } from "../store/layout.ts";
import { readState } from "../store/upload-state.ts";
import type { UploadStorage } from "../store/upload-storage.ts";
import type { GivenAnswer, UnansweredPage, UploadPageStore } from "./upload-pages.ts";

/** What it takes to take an answer. */
export interface AnswerTaking {
  readonly storage: UploadStorage;
  readonly tokens: Pick<SlotTokens, "openUrl">;
  readonly lock: WriteLock;
  readonly pages: Pick<UploadPageStore, "answer">;
  readonly remover: Pick<UploadRemover, "revoke">;
  readonly onError: (error: unknown) => void;
}

/**
 * Takes the answer of an open page: compares it with what is there, and keeps it when it names every whole file of the
 * page: until the tool takes them none can be taken back. Rejects with `precondition_failed` when the files are others,
 * `already_exists` when another answer was given before, and as `readAnswer` for an answer that does not fit the question.
 */
export async function takeAnswer(
  { storage, tokens, lock, pages, remover, onError }: AnswerTaking,
  page: UnansweredPage,
  given: GivenAnswer,
  signal: AbortSignal,
): Promise<void> {
  const { question } = page;
  const slots = await slotsOf(tokens, question);
  const answer = await readAnswer(fieldsOf(question), slots, given);
  const { answerId, action } = given;
  if (answer.action !== "accept") {
    await pages.answer(page, { answerId, action });
    // the client may never repeat the call that would end them
    const revocations = [...slots.values()].map((slot) => remover.revoke(slot, signal));
    for (const revoked of await Promise.allSettled(revocations))
      if (revoked.status === "rejected") onError(revoked.reason);
    return;
  }
  const namedFields = await compare(storage, slots, answer.files, signal);
  const leases: LockLease[] = [];
  try {
    // in one order everywhere, so that two answers do not wait for each other
    for (const fileId of namedFields.flatMap(({ fileIds }) => fileIds).toSorted())
      leases.push(await lock.acquire(fileId, signal));
    // one may have been taken back before its lock was held
    const compared = await compare(storage, slots, answer.files, signal);
    const content = { ...answer.values, ...contentOf(question, compared) };
    await pages.answer(page, { answerId, action, content });
  } finally {
    await Promise.all(leases.map((lease) => lease.release()));
  }
}

/** The files of each field as they are there; rejects unless the claims name every whole file of its slot. */
function compare(
  storage: UploadStorage,
  slots: ReadonlyMap<string, AnsweredSlot>,
  files: ReadonlyMap<string, readonly AnsweredFile[]>,
  signal: AbortSignal,
): Promise<ComparedField[]> {
  return Promise.all(
    [...files].map(async ([name, claims]) => {
      const slot = slots.get(name)!;
      const { places } = await readState(storage, slot.uploadId, signal);
      const records = await readRecords(storage, { places, folder: folderOf(slot) }, signal);
      const { matched, unmatched } = matchClaims(records, claims) ?? {
        matched: [],
        unmatched: records,
      };
      if (unmatched.length > 0 || matched.length < claims.length)
        throw new SluiceError(
          "precondition_failed",
          "upload page: the answer does not name the files that are there",
        );
      return {
        name,
        fileIds: matched.map(({ record }) => record.fileId),
        // with its digest no other file can be taken for it
        files: matched.map(({ record, claim }) => ({ ...claim, sha256: record.sha256 })),
      };
    }),
  );
}

interface ComparedField {
  readonly name: string;
  readonly fileIds: readonly string[];
  readonly files: readonly AnsweredFile[];
}

function contentOf(
  { requestedSchema }: BinaryQuestion,
  compared: readonly ComparedField[],
): Record<string, unknown> {
  const content: Record<string, unknown> = {};
  for (const { name, files } of compared) {
    const schema = requestedSchema.properties[name];
    const isMultiple = schema?.type === "file" && schema.multiple === true;
    if (isMultiple) content[name] = files;
    else if (files.length > 0) content[name] = files[0];
  }
  return content;
}

type AnsweredSlot = ExpectedSlot & PresentedSlot;

/** The slots of a page by field, as their tokens describe them. */
async function slotsOf(
  tokens: Pick<SlotTokens, "openUrl">,
  question: BinaryQuestion,
): Promise<Map<string, AnsweredSlot>> {
  const now = Date.now();
  const opening = Object.entries(question.uploadEndpoints).map(
    async ([name, { url }]) => [name, await tokens.openUrl(url, now)] as const,
  );
  return new Map(await Promise.all(opening));
}

/** The fields as the tool asked for them, as far as an answer is read by them. */
function fieldsOf({ requestedSchema }: BinaryQuestion): Fields {
  const { properties, required } = requestedSchema;
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [
      name,
      { ...schema, required: required.includes(name) },
    ]),
  ) as Fields;
}
