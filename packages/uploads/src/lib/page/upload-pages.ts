import { createTextSealer, SluiceError } from "@sluice/core";
import type { Host } from "@sluice/server";
import type { BinaryQuestion } from "../elicit-fields.ts";
import type { PageQuestion, UploadPages } from "../elicit-page.ts";
import { isId } from "../random-id.ts";

/** A question as the page shows it. */
export interface OpenPage {
  readonly pageId: string;
  readonly question: BinaryQuestion;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  /** Somebody answered it. */
  readonly isAnswered: boolean;
  /** In whose share of the state store it counts. */
  readonly owner: string;
}

/** Pages, for the one who asks and for the one who answers. */
export interface PageDesk extends UploadPages {
  /** The page of a token; `not_found` for what is none of ours, `expired` after its time. */
  open(token: string): Promise<OpenPage>;
  /** Keeps an answer: the first one. `already_exists` for another. */
  answer(page: OpenPage, answer: object): Promise<void>;
}

/** Path of the pages below the endpoint. */
export const pagesPath = "/upload-page/";

/**
 * Makes the pages of one server. Questions and answers are kept in its state store until they expire; the
 * token in the URL of a page is sealed, and is all that one needs to answer.
 */
export function createUploadPages({
  endpoint,
  keys,
  state,
}: Pick<Host, "endpoint" | "keys" | "state">): PageDesk {
  const sealer = createTextSealer({ keys, purpose: "upload-page", maxLength: 512 });
  const context = [endpoint.url];

  function pageIn(token: string): { pageId: string; expiresAt: number } {
    try {
      const [expiresAt, pageId = ""] = sealer.unseal(token, context).split(" ");
      if (isId(pageId)) return { pageId, expiresAt: Number(expiresAt) };
    } catch {
      // altered, or of other keys or another endpoint
    }
    throw new SluiceError("not_found", "upload page: there is no such page");
  }

  return {
    async pageUrl({ pageId, question, expiresAt, owner = "" }: PageQuestion) {
      const now = Date.now();
      const kept: KeptQuestion = { question, owner };
      await state.put(questionId(pageId), encode(kept), { now, expiresAt, owner });
      const token = sealer.seal(`${expiresAt} ${pageId}`, context);
      return `${endpoint.url}${pagesPath}${token}`;
    },

    async answerOf(pageId, { signal } = {}) {
      signal?.throwIfAborted();
      const record = await state.get(answerId(pageId), Date.now());
      signal?.throwIfAborted();
      return record && decode(record);
    },

    async open(token) {
      const now = Date.now();
      const { pageId, expiresAt } = pageIn(token);
      const [record, answer] = await Promise.all([
        state.get(questionId(pageId), now),
        state.get(answerId(pageId), now),
      ]);
      if (now >= expiresAt || !record)
        throw new SluiceError("expired", "upload page: its time is over");
      const { question, owner } = decode(record) as KeptQuestion;
      return { pageId, question, expiresAt, isAnswered: answer !== undefined, owner };
    },

    async answer({ pageId, expiresAt, owner }, answer) {
      await state.put(answerId(pageId), encode(answer), { now: Date.now(), expiresAt, owner });
    },
  };
}

/** What is kept of a question. */
type KeptQuestion = Pick<OpenPage, "question" | "owner">;

function questionId(pageId: string): string {
  return `upload-page-${pageId}`;
}

function answerId(pageId: string): string {
  return `upload-answer-${pageId}`;
}

function encode(value: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

function decode(record: Uint8Array): unknown {
  return JSON.parse(new TextDecoder().decode(record));
}
