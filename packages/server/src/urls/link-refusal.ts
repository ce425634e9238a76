import { shieldHeaders } from "../http/byte-headers.ts";
import { problem } from "../http/problem.ts";
import type { Reply } from "../http/reply.ts";

/**
 * The refusal of a link in words, for the reader that opened it in a browser; any other client gets a problem. The
 * same status gives the same bytes, whatever was behind it.
 */
export function linkRefusal(refusal: Reply, accept: string | undefined): Reply {
  const sentence = sentences[refusal.status];
  if (sentence === undefined) return refusal;
  if (!takesHtml(accept)) return refusal.status === 404 ? deadLink : refusal;
  const text = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Link</title><p>${sentence}</p></html>`;
  const headers = [
    "Content-Type",
    "text/html; charset=utf-8",
    "Content-Length",
    String(text.length),
  ];
  return { status: refusal.status, headers: [...headers, ...shieldHeaders], text };
}

const deadLink = problem(404, {
  detail: "The link is over, or was never one: ask for a new one.",
});

const sentences: Readonly<Record<number, string>> = {
  404: "This link does not work, or no longer. Ask for a new one.",
  410: "The file has changed since this link was made. Ask for a new one.",
};

function takesHtml(accept: string | undefined): boolean {
  return accept?.toLowerCase().includes("text/html") ?? false;
}
