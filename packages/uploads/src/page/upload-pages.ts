import { SluiceError } from "@sluice/core";
import { createTextSealer, definedMembers, type TextSealer } from "@sluice/core/internal";
import type { Host } from "@sluice/server/internal";
import type { StateStore } from "@sluice/state";
import type { BinaryQuestion } from "../elicitation/fields.ts";
import { tryPut, type PutTimes } from "../slots/put-once.ts";
import { isId } from "../slots/slots.ts";
import { uploadError } from "../slots/upload-error.ts";
import type { PageOutcome } from "./page-endings.ts";

/** A question that is answered on a page in the user's browser, for clients that send no files themselves. */
export interface PageQuestion {
  /** 32 characters of base64url. */
  readonly pageId: string;
  /** As a client that can send files gets it; the slots authenticate themselves. */
  readonly question: BinaryQuestion;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  /** In whose share of the state store it counts, as `Identity` says; its pages are bounded together. */
  readonly owner?: string | undefined;
  /** The page is that of its only slot, and ends with it: no tool waits for the answer. Default false. */
  readonly endsWithSlot?: boolean;
}

/** `shown`: it is open, and a browser has it. */
type PageStatus = "unknown" | "open" | "shown" | SettledPage["phase"];

/** What a page shows. */
export type OpenPage = UnansweredPage | SettledPage;

/** A question that waits for its answer. */
export interface UnansweredPage {
  readonly phase: "open";
  readonly pageId: string;
  readonly question: BinaryQuestion;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  /** In whose share of the state store it counts. */
  readonly owner: string;
}

/** A question that has its answer, or its end. */
export interface SettledPage {
  /** `answered`: the tool has not said yet whether it took the files. */
  readonly phase: "answered" | PageOutcome;
  /** Which answer it was; absent if the question ended without one. */
  readonly answerId?: string;
}

/** An answer as the page gives it. */
export interface GivenAnswer {
  /** Chosen by the page: says whether an answer that counts is its own. */
  readonly answerId: string;
  readonly action: "accept" | "decline" | "cancel";
  readonly content?: Readonly<Record<string, unknown>>;
}

/** Path of the pages below the endpoint. */
export const pagesPath = "/upload-page/";
/** Path of the pages that an App shows inside the frame of a host, whose origin is any. */
export const appPagesPath: string = `${pagesPath}app/`;

/** Where a page is shown. A token of the one place opens nothing at the other. */
export type PagePlace = "tab" | "app";

/** Maximum bytes of a question. */
const maxQuestionBytes = 64 * 1024;
/** How long after its end a page may be told what became of its answer. */
const handoverMs = 60_000;
/** How long after its end a page tells it. */
const outcomeMs = 300_000;

/**
 * Pages that show a question, send the files to their slots, and keep what the user did. Questions and answers are kept
 * in the state store of the server until they expire; the token in the URL of a page is sealed, and is all that one needs
 * to answer.
 */
export class UploadPageStore {
  readonly #url: string;
  readonly #state: StateStore;
  readonly #sealer: TextSealer;
  readonly #places: OpenPages;

  constructor({ endpoint, keys, stores: { state } }: Pick<Host, "endpoint" | "keys" | "stores">) {
    this.#url = endpoint.url;
    this.#state = state;
    this.#sealer = createTextSealer({ keys, purpose: "upload-page", maxLength: 512 });
    this.#places = new OpenPages(state);
  }

  /**
   * Keeps the question until it expires, and gives the URL of its page. A secret. Throws `throttled` when 16 pages
   * of the owner are open, `too_large` for a question of more than 64 KiB, and what the store throws.
   */
  async pageUrl(page: PageQuestion): Promise<string> {
    const { pageId, question, expiresAt, owner = "", endsWithSlot } = page;
    const now = Date.now();
    const size = encode(question).length;
    if (size > maxQuestionBytes)
      throw uploadError(
        "too_large",
        `a question has at most ${maxQuestionBytes} bytes; shorten its message or its fields`,
        { size },
      );
    const place = await this.#places.take(owner, { now, expiresAt });
    const record: KeptQuestion = { question, place, expiresAt, owner, endsWithSlot };
    try {
      await this.#state.put(keyOf("page", pageId), encode(record), { now, expiresAt, owner });
    } catch (error) {
      await this.#places.release(place);
      throw error;
    }
    return this.urlOf(pageId, expiresAt);
  }

  /** The URL of a page that is kept. */
  urlOf(pageId: string, expiresAt: number, place: PagePlace = "tab"): string {
    const token = this.#sealer.seal(`${expiresAt} ${pageId}`, this.#contextOf(place));
    return `${this.#url}${place === "app" ? appPagesPath : pagesPath}${token}`;
  }

  /** The page of a token; `not_found` for an unknown one, `expired` after its time. */
  async open(token: string, place: PagePlace = "tab"): Promise<OpenPage> {
    const { pageId, expiresAt } = this.#pageIn(token, place);
    const record = await this.#read<KeptQuestion>(keyOf("page", pageId));
    const settledPage = await this.#settledOf(pageId);
    const isLate = Date.now() >= expiresAt + (settledPage ? handoverMs : 0);
    const isWaiting = settledPage === undefined || settledPage.phase === "answered";
    if (isWaiting && (isLate || (!settledPage && !record)))
      throw new SluiceError("expired", "upload page: expired");
    if (settledPage) return settledPage;
    const { question, owner } = record!;
    return { phase: "open", pageId, expiresAt, question, owner };
  }

  /** Notes that a browser shows an open page: from then on its files count when the user says so. */
  async markShown({ pageId, expiresAt, owner }: UnansweredPage): Promise<void> {
    const times = { now: Date.now(), expiresAt: expiresAt + handoverMs, owner };
    await tryPut(this.#state, keyOf("shown", pageId), encode({}), times);
  }

  /** What became of a page, and whether a browser has shown it. `unknown`: there is none, or its time is over. */
  async statusOf(pageId: string): Promise<PageStatus> {
    const record = await this.#read<KeptQuestion>(keyOf("page", pageId));
    const settledPage = await this.#settledOf(pageId);
    if (settledPage) return settledPage.phase;
    if (!record) return "unknown";
    return (await this.#read<object>(keyOf("shown", pageId))) ? "shown" : "open";
  }

  /** Keeps an answer: the first one, which may come twice. `already_exists` for another. */
  async answer(page: UnansweredPage, answer: GivenAnswer): Promise<void> {
    const { pageId, expiresAt, question, owner } = page;
    const state = this.#state;
    const now = Date.now();
    const { answerId } = answer;
    const times = { now, expiresAt: expiresAt + handoverMs, owner };
    // a request that takes a file back looks for these before the answer, so they are there first
    for (const { uploadId } of Object.values(question.uploadEndpoints))
      await tryPut(state, keyOf("answered", uploadId), encode({ pageId }), times);
    const isFirst = await tryPut(state, keyOf("answer", pageId), encode(answer), times);
    if (isFirst) {
      const takenPage = await this.#read<SettledPage>(keyOf("taken", pageId));
      const outcome = await this.#read<SettledPage>(keyOf("outcome", pageId));
      // the one before was taken or concluded meanwhile, which made room for this one
      if ((outcome ?? takenPage) && (outcome ?? takenPage)?.answerId !== answerId)
        await state.take(keyOf("answer", pageId), now);
    }
    const settledPage = await this.#settledOf(pageId);
    if (settledPage?.answerId !== answerId)
      throw new SluiceError("already_exists", "upload page: another answer was given before");
  }

  /** Whether an answer names what came for an upload: nothing of it may be taken back then. */
  async isAnswered(uploadId: string): Promise<boolean> {
    const flag = await this.#read<{ readonly pageId: string }>(keyOf("answered", uploadId));
    return flag !== undefined && (await this.#settledOf(flag.pageId)) !== undefined;
  }

  /**
   * Takes what the user did, as an elicitation result: `{action, content?}`. `undefined` while there is no answer, and
   * after it was taken. Every holder of the URL may have answered: it is read like the answer of a client.
   */
  async answerOf(
    pageId: string,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<unknown> {
    signal?.throwIfAborted();
    const answer = await this.#read<GivenAnswer>(keyOf("answer", pageId));
    signal?.throwIfAborted();
    if (!answer) return undefined;
    const question = await this.#read<KeptQuestion>(keyOf("page", pageId));
    const now = Date.now();
    const expiresAt = (question?.expiresAt ?? now) + handoverMs;
    const takenPage = encode(settledBy(answer));
    // before the answer goes: until then its id keeps every other one out
    const { owner = "" } = question ?? {};
    if (!(await tryPut(this.#state, keyOf("taken", pageId), takenPage, { now, expiresAt, owner })))
      return undefined;
    await this.#state.take(keyOf("answer", pageId), now);
    return definedMembers({ action: answer.action, content: answer.content });
  }

  /** Says how it ended: the page tells the user, and only this is kept of it. */
  async conclude(pageId: string, outcome: PageOutcome): Promise<void> {
    const state = this.#state;
    const now = Date.now();
    const question = await this.#read<KeptQuestion>(keyOf("page", pageId));
    const settledPage = await this.#settledOf(pageId);
    const { answerId } = settledPage ?? {};
    const record = definedMembers({ phase: outcome, answerId }) satisfies SettledPage;
    const expiresAt = Math.max(now, question?.expiresAt ?? 0) + outcomeMs;
    const { owner = "" } = question ?? {};
    await tryPut(state, keyOf("outcome", pageId), encode(record), { now, expiresAt, owner });
    for (const kind of ["answer", "taken", "page", "shown"] as const)
      await state.take(keyOf(kind, pageId), now);
    for (const { uploadId } of Object.values(question?.question.uploadEndpoints ?? {}))
      await state.take(keyOf("answered", uploadId), now);
    // later the place may be that of another page
    if (question && now < question.expiresAt) await this.#places.release(question.place);
  }

  /** Concludes the page of a slot that no tool waits for; does nothing for any other. */
  async concludeSlot(uploadId: string, outcome: PageOutcome): Promise<void> {
    const record = await this.#read<KeptQuestion>(keyOf("page", uploadId));
    if (record?.endsWithSlot === true) await this.conclude(uploadId, outcome);
  }

  #contextOf(place: PagePlace): readonly string[] {
    return place === "app" ? [this.#url, place] : [this.#url];
  }

  #pageIn(token: string, place: PagePlace): { pageId: string; expiresAt: number } {
    try {
      const text = this.#sealer.unseal(token, this.#contextOf(place));
      const [expiresAt, pageId = ""] = text.split(" ");
      if (isId(pageId)) return { pageId, expiresAt: Number(expiresAt) };
    } catch {
      // altered, or of other keys or another endpoint
    }
    throw new SluiceError("not_found", "upload page: there is no such page");
  }

  async #read<Value>(id: string): Promise<Value | undefined> {
    const record = await this.#state.get(id, Date.now());
    return record && (JSON.parse(new TextDecoder().decode(record)) as Value);
  }

  /** What became of a question; `undefined` while it waits for its answer. */
  async #settledOf(pageId: string): Promise<SettledPage | undefined> {
    // in the order in which they are made, backwards: what is gone has a successor
    const answer = await this.#read<GivenAnswer>(keyOf("answer", pageId));
    const takenPage = await this.#read<SettledPage>(keyOf("taken", pageId));
    const outcome = await this.#read<SettledPage>(keyOf("outcome", pageId));
    if (outcome ?? takenPage) return outcome ?? takenPage;
    return answer && settledBy(answer);
  }
}

/** The same for tools, which ask and are told. */
export type UploadPages = Pick<
  UploadPageStore,
  "pageUrl" | "urlOf" | "statusOf" | "answerOf" | "conclude"
>;

interface KeptQuestion {
  readonly question: BinaryQuestion;
  /** Id of its place, see {@link OpenPages}. */
  readonly place: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  /** In whose share of the state store it counts; empty for callers that nothing vouches for. */
  readonly owner: string;
  readonly endsWithSlot: boolean | undefined;
}

/** A refusal needs nothing of the tool. */
function settledBy({ answerId, action }: GivenAnswer): SettledPage {
  return { phase: action === "accept" ? "answered" : "declined", answerId };
}

type RecordKind = "page" | "shown" | "answer" | "taken" | "outcome" | "answered";

/** Ids of the records of a page, or of an upload in its answer. */
function keyOf(kind: RecordKind, id: string): string {
  return `upload-${kind}-${id}`;
}

function encode(value: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

/** Maximum pages of one owner at a time. */
const placesOfOwner = 16;
/** Callers that nothing vouches for cannot be told apart: each page takes one of this many shares by chance. */
const anonymousShares = 16;

/** Bounds the pages that are open for one owner, in all processes of a state store: each place is a record whose id is free or taken. */
export class OpenPages {
  readonly #state: StateStore;

  constructor(state: StateStore) {
    this.#state = state;
  }

  /**
   * Takes a place until the page ends; gives its id. An empty owner stands for callers that nothing vouches for. Throws
   * `throttled` when there is none.
   */
  async take(owner: string, times: PutTimes): Promise<string> {
    const share = owner === "" ? `anonymous-${Math.floor(Math.random() * anonymousShares)}` : owner;
    for (let n = 0; n < placesOfOwner; n++) {
      const place = `upload-place-${share}-${n}`;
      if (await tryPut(this.#state, place, new Uint8Array(), { ...times, owner })) return place;
    }
    throw uploadError(
      "throttled",
      `${placesOfOwner} upload pages are open for this user; answer one of them, or call the tool again when one has expired`,
      { retryAfterMs: 60_000 },
    );
  }

  async release(place: string): Promise<void> {
    await this.#state.take(place, Date.now());
  }
}
