import { SluiceError } from "@sluice/core";
import type { AnsweredFile } from "@sluice/core/wire";
import { recordsOf, matchClaims } from "../confirm/confirm.ts";
import { readAnswer, type ExpectedSlot } from "../ask/elicit-answer.ts";
import type { BinaryQuestion, Fields } from "../ask/elicit-fields.ts";
import { folderOf, uploadPrefix } from "../store/layout.ts";
import { revokeSlot } from "../slots/revoke.ts";
import type { PresentedSlot } from "../slots/slot-token.ts";
import type { ClaimedFile } from "../slots/slots.ts";
import type { Turn } from "../receive/turns.ts";
import { stateOf } from "../store/upload-state.ts";
import { listAll } from "../slots/upload-storage.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";
import type { GivenAnswer, OpenQuestion } from "./upload-pages.ts";

/**
 * Compares an answer with what is there, and keeps it when it names every whole file of the page: until the tool takes
 * them none can be taken back. Throws `precondition_failed` when the files are others, `already_exists` when another
 * answer was given before, and as `readAnswer` for an answer that does not fit the question.
 */
export async function takeAnswer(
  parts: UploadsParts,
  page: OpenQuestion,
  given: GivenAnswer,
  signal: AbortSignal,
): Promise<void> {
  const { question } = page;
  const slots = slotsOf(parts, question);
  const answer = await readAnswer(fieldsOf(question), slots, given);
  const { answerId, action } = given;
  if (answer.action !== "accept") {
    await parts.pages.answer(page, { answerId, action });
    // the client may never repeat the call that would end them
    const refused = [...slots.values()].map((slot) => revokeSlot(parts, slot, signal));
    for (const revoked of await Promise.allSettled(refused))
      if (revoked.status === "rejected") parts.host.onError(revoked.reason);
    return;
  }
  const named = await compareAll(parts, slots, answer.files, signal);
  const turns: Turn[] = [];
  try {
    // in one order everywhere, so that two answers do not wait for each other
    for (const fileId of named.flatMap(({ fileIds }) => fileIds).toSorted())
      turns.push(await parts.turns.take(fileId, signal));
    // one may have been taken back before its turn
    const compared = await compareAll(parts, slots, answer.files, signal);
    const content = { ...answer.values, ...contentOf(question, compared) };
    await parts.pages.answer(page, { answerId, action, content });
  } finally {
    await Promise.all(turns.map((turn) => turn.end()));
  }
}

/** The files of a field, as they are there. */
interface Compared {
  readonly name: string;
  readonly fileIds: readonly string[];
  readonly files: readonly AnsweredFile[];
}

function compareAll(
  parts: UploadsParts,
  slots: ReadonlyMap<string, OpenSlot>,
  files: ReadonlyMap<string, readonly AnsweredFile[]>,
  signal: AbortSignal,
): Promise<Compared[]> {
  return Promise.all(
    [...files].map(async ([name, claims]) => {
      const matched = await compare(parts, slots.get(name)!, claims, signal);
      return {
        name,
        fileIds: matched.map(({ record }) => record.fileId),
        // with its digest no other file can be taken for it
        files: matched.map(({ record, claim }) => ({
          ...(claim as AnsweredFile),
          sha256: record.sha256,
        })),
      };
    }),
  );
}

function contentOf(
  { requestedSchema }: BinaryQuestion,
  compared: readonly Compared[],
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

type OpenSlot = ExpectedSlot & PresentedSlot;

/** The whole files of a slot with their claims, when the claims name every one. */
async function compare(
  parts: UploadsParts,
  slot: OpenSlot,
  claims: readonly ClaimedFile[],
  signal: AbortSignal,
) {
  const state = stateOf(await listAll(parts.storage, uploadPrefix(slot.uploadId), signal));
  const records = await recordsOf(parts, { ...state, folder: folderOf(slot) }, signal);
  const { matched, left } = matchClaims(records, claims) ?? { matched: [], left: records };
  if (left.length > 0 || matched.length < claims.length)
    throw new SluiceError(
      "precondition_failed",
      "upload page: the answer does not name the files that are there",
    );
  return matched;
}

/** The slots of a page by field, as their tokens describe them. */
function slotsOf({ sealer }: UploadsParts, question: BinaryQuestion): Map<string, OpenSlot> {
  const now = Date.now();
  return new Map(
    Object.entries(question.uploadEndpoints).map(([name, { url }]) => [
      name,
      sealer.open(url.slice(url.lastIndexOf("/") + 1), now),
    ]),
  );
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
