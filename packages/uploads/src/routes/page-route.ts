import { SluiceError } from "@sluice/core";
import { parseJson } from "@sluice/core/internal";
import { type Host, problem, type Reply } from "@sluice/server/internal";
import type { CorsTerms, PlainRequest, Routes } from "@sluice/transport-http";
import { z } from "zod/v4";
import { questionOf } from "../elicitation/fields.ts";
import { failurePage, pageAssets, pageHeaders, pageOf, settledPage } from "../page/page-html.ts";
import { takeAnswer, type AnswerTaking } from "../page/take-answer.ts";
import {
  appPagesPath,
  pagesPath,
  type GivenAnswer,
  type PagePlace,
  type PageQuestion,
  type UploadPageStore,
} from "../page/upload-pages.ts";
import { createBodyReader } from "../receive/body-reader.ts";
import type { ShutdownStage } from "../slots/open-requests.ts";
import { type OpenSlot, tagOfOwner } from "../slots/slot-token.ts";
import { codeOf } from "../slots/upload-error.ts";
import { readState } from "../store/upload-state.ts";
import type { UploadStorage } from "../store/upload-storage.ts";
import { jsonReply, refusalOf } from "./answers.ts";

/**
 * Makes the route that answers requests below `<endpoint>/upload-page/`: the page, in JSON what became of it, and
 * the answer. Below `app/` are the same for an App in the frame of a host, whose origin may be any: such a URL is itself
 * the permission, and only the App gets it.
 */
export function createPageRoutes(
  {
    host: { endpoint, onError, failures, addressOf },
    pages,
    answering,
    closing,
    siteName,
  }: {
    readonly host: Host;
    readonly pages: UploadPageStore;
    readonly answering: AnswerTaking;
    readonly closing: ShutdownStage;
    /** Of the server, for people. */
    readonly siteName: string | undefined;
  },
  base: string,
): Routes {
  const { host: hostName, origin } = new URL(endpoint.url);
  const site = { name: siteName, host: hostName };
  const prefix = `${base}${pagesPath}`;

  function throttled(request: PlainRequest, error: unknown): Promise<unknown> {
    const { address, authInfo } = request;
    const caller = { header: (name: string) => request.header(name), address, authInfo };
    return failures.errorToReport(error, addressOf(caller), request.signal);
  }

  async function show(request: PlainRequest, { token, place }: PageAddress): Promise<Reply> {
    try {
      const page = await pages.open(token, place);
      return htmlReply(request.method, { status: 200, text: pageOf(page, site) });
    } catch (error) {
      const reportedError = await throttled(request, error);
      const reply = failureReply(request.method, reportedError);
      if (reply.status >= 500) onError(error);
      return reply;
    }
  }

  /** What became of the question, for the script of the page. */
  async function tell(request: PlainRequest, { token, place }: PageAddress): Promise<Reply> {
    try {
      const page = await pages.open(token, place);
      // the script asks: what only loads the page, such as a preview of the link, shows it to no user
      if (page.phase === "open") await pages.markShown(page);
      const answerId = page.phase === "open" ? undefined : page.answerId;
      return jsonReply(200, { phase: page.phase, answerId });
    } catch (error) {
      return refusalReply(await throttled(request, error));
    }
  }

  async function takeGiven(
    request: PlainRequest,
    { token, place }: PageAddress,
    signal: AbortSignal,
  ): Promise<Reply> {
    try {
      // first, so that a made-up URL is told nothing but 404
      const page = await pages.open(token, place);
      if (place === "tab" && !isOwnPage(request, origin)) return problem(403);
      const type = request.header("content-type") ?? "";
      if (!/^application\/json(?:\s*;|$)/i.test(type))
        return problem(415, { detail: "an answer has the type application/json" });
      const givenAnswer = await readGiven(request, signal);
      if (givenAnswer === undefined) return problem(400, { headers: closeConnection });
      if (page.phase === "open") await takeAnswer(answering, page, givenAnswer, signal);
      // the answer that counts may be this one, whose reply was lost
      else if (page.answerId !== givenAnswer.answerId)
        return problem(409, { headers: closeConnection });
      return { status: 204, headers: ["Cache-Control", "no-store"] };
    } catch (error) {
      // a client that went away is not our fault
      if (request.signal?.aborted === true) return problem(503, { headers: closeConnection });
      return refusalReply(await throttled(request, error), closeConnection);
    }
  }

  function refusalReply(error: unknown, headers: readonly string[] = []): Reply {
    const code = codeOf(error);
    if (code === "invalid_argument") return refusalOf(error, undefined);
    if (code === "precondition_failed") return problem(409, { reason: "changed", headers });
    const status = refusals[code];
    if (status === undefined) onError(error);
    return problem(status ?? 503, { headers: [...headers, ...retryHeaders(error)] });
  }

  async function answer(request: PlainRequest, address: PageAddress): Promise<Reply> {
    const { method } = request;
    const { token, place } = address;
    const asset = Object.values(pageAssets).find(({ path }) => place === "tab" && path === token);
    if (asset && isRead(method))
      return { status: 200, headers: asset.headers, ...(method === "GET" && { text: asset.text }) };
    if (method === "POST" && !asset)
      return closing.runUntil(request.signal, (ending) => takeGiven(request, address, ending));
    if (isRead(method))
      return request.header("accept") === "application/json"
        ? tell(request, address)
        : show(request, address);
    if (asset) return problem(405, { headers: ["Allow", "GET, HEAD"] });
    try {
      await pages.open(token, place);
      return problem(405, { headers: ["Allow", "GET, HEAD, POST"] });
    } catch (error) {
      return refusalReply(await throttled(request, error));
    }
  }

  const appPrefix = `${base}${appPagesPath}`;
  return (path) => {
    if (!path.startsWith(prefix)) return undefined;
    const route = { kind: "page", credential: "url" } as const;
    if (!path.startsWith(appPrefix)) {
      const address = { token: path.slice(prefix.length), place: "tab" } as const;
      return { ...route, answer: (request) => answer(request, address) };
    }
    const address = { token: path.slice(appPrefix.length), place: "app" } as const;
    return { ...route, cors: appCors, answer: (request) => answer(request, address) };
  };
}

interface PageAddress {
  readonly token: string;
  readonly place: PagePlace;
}

const appCors: CorsTerms = {
  methods: ["GET", "HEAD", "POST"],
  headers: "Content-Type",
  public: () => true,
};

const closeConnection = ["Connection", "close"] as const;

const refusals: Readonly<Record<string, number>> = {
  not_found: 404,
  expired: 410,
  already_exists: 409,
  too_large: 413,
  interrupted: 503,
  timeout: 408,
  throttled: 429,
};

function retryHeaders(error: unknown): readonly string[] {
  if (!SluiceError.is(error) || error.code !== "throttled") return [];
  return ["Retry-After", String(Math.ceil((error.retryAfterMs ?? 1_000) / 1_000))];
}

function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

/** Only the page itself answers: browsers say where a request comes from, and pages cannot change that. */
function isOwnPage(request: PlainRequest, origin: string): boolean {
  const site = request.header("sec-fetch-site");
  return site === undefined ? request.header("origin") === origin : site === "same-origin";
}

interface HtmlAnswer {
  readonly status: number;
  readonly text: string;
  readonly headers?: readonly string[];
}

/** A page that says what failed. */
function failureReply(method: string, error: unknown): Reply {
  return htmlReply(method, { ...failurePage(error), headers: retryHeaders(error) });
}

/** A page, with the headers that protect it. */
function htmlReply(method: string, { status, text, headers = [] }: HtmlAnswer): Reply {
  const bytes = new TextEncoder().encode(text).length;
  return {
    status,
    headers: [...pageHeaders, ...headers, "Content-Length", String(bytes)],
    ...(method === "GET" && { text }),
  };
}

/** Answers name files and hold short values. */
const maxAnswerBytes = 64 * 1024;
const readBody = createBodyReader({ totalMs: 30_000 });

const answerSchema = z.object({
  answerId: z.string().regex(/^[\w-]{16,64}$/),
  action: z.enum(["accept", "decline", "cancel"]),
  content: z.record(z.string(), z.unknown()).optional(),
});

/** The answer in the body; `undefined` if it is malformed. What it says is compared by `takeAnswer`. */
async function readGiven(
  request: PlainRequest,
  signal: AbortSignal,
): Promise<GivenAnswer | undefined> {
  if (Number(request.header("content-length") ?? 0) > maxAnswerBytes) throw tooLong();
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = "";
  await readBody({ body: request.body, signal }, (chunk) => {
    bytes += chunk.byteLength;
    if (bytes > maxAnswerBytes) throw tooLong();
    text += decoder.decode(chunk, { stream: true });
    return undefined;
  });
  try {
    const parsed = answerSchema.safeParse(parseJson(text + decoder.decode()));
    return parsed.data as GivenAnswer | undefined;
  } catch {
    return undefined;
  }
}

function tooLong(): SluiceError {
  return new SluiceError("too_large", `upload page: an answer has at most ${maxAnswerBytes} bytes`);
}

/**
 * Answers a browser that opens the URL of a slot: leads to the upload page of the slot, which has the slot's id. It is
 * that of its question, or one that asks for its files.
 */
export async function showSlotPage(
  {
    pages,
    storage,
  }: {
    readonly pages: UploadPageStore;
    readonly storage: UploadStorage;
  },
  slot: OpenSlot,
  slotUrl: string,
  signal: AbortSignal,
): Promise<Reply> {
  const { uploadId, expiresAt } = slot;
  if ((await pages.statusOf(uploadId)) !== "unknown")
    return seeOther(pages.urlOf(uploadId, expiresAt));
  const { phase, places } = await readState(storage, uploadId, signal);
  if (phase === "confirmed") {
    const outcome = { phase: places.length > 0 ? "accepted" : "cancelled" } as const;
    return htmlReply("GET", { status: 200, text: settledPage(outcome) });
  }
  try {
    return seeOther(await pages.pageUrl(questionOfSlot(slot, slotUrl)));
  } catch (error) {
    // another request of the same browser made it
    if (codeOf(error) !== "already_exists") throw error;
    return seeOther(pages.urlOf(uploadId, expiresAt));
  }
}

/** Says on a page why there is none for a slot. */
export function refusedSlotPage(error: unknown): Reply {
  return failureReply("GET", error);
}

function questionOfSlot(slot: OpenSlot, url: string): PageQuestion {
  const { uploadId, owner, expiresAt, terms } = slot;
  const isOne = terms.maxFiles === 1;
  const fields = {
    file: { type: "file", title: isOne ? "File" : "Files", multiple: !isOne },
  } as const;
  const message = isOne ? "Choose a file to send." : "Choose the files to send.";
  const slots = new Map([["file", { uploadId, url, method: "POST", expiresAt, terms } as const]]);
  return {
    pageId: uploadId,
    question: questionOf({ message, fields }, slots, "self"),
    expiresAt,
    owner: tagOfOwner(owner),
    endsWithSlot: true,
  };
}

/** The URL holds a secret: no cache keeps it. */
function seeOther(url: string): Reply {
  const headers = ["Location", url, "Content-Length", "0", "Cache-Control", "private, no-store"];
  return { status: 303, headers: [...headers, "Referrer-Policy", "no-referrer"] };
}
