import { parseJson, SluiceError } from "@sluice/core";
import { problem, type Host, type Reply } from "@sluice/server";
import type { PlainRequest, Routes } from "@sluice/transport-http";
import { z } from "zod";
import { readGuarded } from "../body-guard.ts";
import { pageAssets } from "./page-assets.ts";
import { pageHeaders } from "./page-headers.ts";
import { failurePage, questionPage } from "./page-html.ts";
import { pagesPath, type PageDesk } from "./upload-pages.ts";

/** Options of {@link createPageRoutes}. */
export interface PageRouteOptions {
  readonly pages: PageDesk;
  /** Public URL of the endpoint. */
  readonly endpoint: string;
  /** Path of the endpoint as this process sees it, without a slash at its end. */
  readonly base: string;
  readonly host: Pick<Host, "addressOf" | "failures" | "onError">;
}

/** Makes the route that answers requests below `<endpoint>/upload-page/`. */
export function createPageRoutes(options: PageRouteOptions): Routes {
  const { pages } = options;
  const { onError } = options.host;
  const { host, origin } = new URL(options.endpoint);
  const prefix = `${options.base}${pagesPath}`;

  function judge(request: PlainRequest, error: unknown): Promise<unknown> {
    const { address, authInfo } = request;
    const caller = { header: (name: string) => request.header(name), address, authInfo };
    return options.host.failures.judge(error, options.host.addressOf(caller), request.signal);
  }

  async function show(request: PlainRequest, token: string): Promise<Reply> {
    try {
      const page = await pages.open(token);
      return htmlReply(request, { status: 200, text: questionPage(page, host, pageAssets) });
    } catch (error) {
      const told = await judge(request, error);
      const { status, text } = failurePage(told, pageAssets);
      if (status >= 500) onError(error);
      return htmlReply(request, { status, text, headers: retryHeaders(told) });
    }
  }

  async function takeAnswer(request: PlainRequest, token: string): Promise<Reply> {
    try {
      // first, so that a made-up URL is told nothing but 404
      const page = await pages.open(token);
      if (!isOwnPage(request, origin)) return problem(403);
      const type = request.header("content-type") ?? "";
      if (!/^application\/json(?:\s*;|$)/i.test(type)) return problem(415);
      const given = await readAnswer(request);
      if (given === undefined) return problem(400, { headers: closing });
      await pages.answer(page, given);
      return { status: 204, headers: ["Cache-Control", "no-store"] };
    } catch (error) {
      const told = await judge(request, error);
      const code = SluiceError.is(told) ? told.code : "internal";
      const status = refusals[code];
      if (status !== undefined)
        return problem(status, { headers: [...closing, ...retryHeaders(told)] });
      // who goes away is no fault of ours
      if (request.signal?.aborted !== true) onError(error);
      return problem(503, { headers: closing });
    }
  }

  async function answer(request: PlainRequest, rest: string): Promise<Reply> {
    const { method } = request;
    const asset = Object.values(pageAssets).find(({ path }) => path === rest);
    if (asset && isRead(method))
      return { status: 200, headers: asset.headers, ...(method === "GET" && { text: asset.text }) };
    if (method === "POST" && !asset) return takeAnswer(request, rest);
    if (isRead(method)) return show(request, rest);
    const isPage = asset !== undefined || (await pages.open(rest).then(isFound, isMissing));
    if (!isPage) return problem(404);
    return problem(405, { headers: ["Allow", asset ? "GET, HEAD" : "GET, HEAD, POST"] });
  }

  return (path) => {
    if (!path.startsWith(prefix)) return undefined;
    const rest = path.slice(prefix.length);
    return { kind: "page", credential: "url", rest, answer: (request) => answer(request, rest) };
  };
}

const isFound = (): boolean => true;
const isMissing = (): boolean => false;
const closing = ["Connection", "close"] as const;

const refusals: Readonly<Record<string, number>> = {
  not_found: 404,
  expired: 410,
  already_exists: 409,
  too_large: 413,
  interrupted: 400,
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

function htmlReply({ method }: PlainRequest, { status, text, headers = [] }: HtmlAnswer): Reply {
  const bytes = new TextEncoder().encode(text).length;
  return {
    status,
    headers: [...pageHeaders, ...headers, "Content-Length", String(bytes)],
    ...(method === "GET" && { text }),
  };
}

/** Answers name files and hold short values. */
const maxAnswerBytes = 64 * 1024;
const answerMs = 30_000;

const answerSchema = z.looseObject({
  action: z.enum(["accept", "decline", "cancel"]),
  content: z.record(z.string(), z.unknown()).optional(),
});

/** The answer in the body; `undefined` when it is none. What it says is checked by whoever asked. */
async function readAnswer({ body, signal }: PlainRequest): Promise<object | undefined> {
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = "";
  await readGuarded(
    body,
    (chunk) => {
      bytes += chunk.byteLength;
      if (bytes > maxAnswerBytes)
        throw new SluiceError(
          "too_large",
          `upload page: an answer has at most ${maxAnswerBytes} bytes`,
        );
      text += decoder.decode(chunk, { stream: true });
      return undefined;
    },
    signal ?? new AbortController().signal,
    { pace: { totalMs: answerMs } },
  );
  try {
    const parsed = answerSchema.safeParse(parseJson(text + decoder.decode()));
    return parsed.data;
  } catch {
    return undefined;
  }
}
