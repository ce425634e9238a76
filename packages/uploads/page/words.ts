import { isAccepted, sizeText } from "@sluice/core/internal";
import { Refused, type Source } from "./transfer.ts";
import type { UploadState } from "./upload.ts";

/** What a field takes. */
export interface Terms {
  readonly title: string;
  readonly accept: readonly string[];
  /** For people; empty when everything is accepted. */
  readonly acceptText: string;
  readonly maxBytes: number;
  readonly maxFiles: number;
}

/** What is wrong with a file before it is sent, or `undefined`. */
export function findingOf(file: File, terms: Terms): string | undefined {
  if (file.size > terms.maxBytes) return tooBig(file, terms);
  // where the browser knows no type, the server looks into the file
  const mayPass =
    file.type === "" || isAccepted({ name: file.name, mimeType: file.type }, terms.accept);
  return mayPass ? undefined : wrongType(terms);
}

function tooBig({ size }: Pick<Source, "size">, { maxBytes }: Terms): string {
  if (size <= maxBytes)
    return "Too big: the server takes no file of that size. Remove it and choose a smaller one.";
  return `Too big: it has ${sizeText(size)}, and at most ${sizeText(maxBytes)} can be sent here. Remove it and choose a smaller one.`;
}

function wrongType({ acceptText }: Terms): string {
  return acceptText === ""
    ? "The server does not take this type of file. Remove it and choose another one."
    : `This file type is not accepted. Accepted: ${acceptText}. Remove it and choose another one.`;
}

/** Why it failed, and what one can do. */
export function failureText(error: unknown, file: Pick<Source, "size">, terms: Terms): string {
  if (!(error instanceof Refused))
    return "This file could not be read. It may have been changed or moved, or it is a folder. Remove it and choose it again.";
  switch (error.status) {
    case 401:
    case 404:
    case 410:
      return "This link has expired. Go back to where you got it and ask for a new one.";
    case 403:
      return "The server checked this file and rejected it. Remove it and choose another one.";
    case 409:
      return "The file limit is reached. Remove one, then try again.";
    case 413:
      return tooBig(file, terms);
    case 415:
      return wrongType(terms);
    case 422:
      return "The file did not arrive as it was sent. Try again.";
    case 507:
      return "There is no room left for your files on the server. Remove one, or try again later.";
    default:
      return "The server did not take this file. Try again, or remove it.";
  }
}

/** One short line on how far a file is. */
export function stateText({ size }: Pick<Source, "size">, state: UploadState): string {
  const done = size === 0 ? 100 : Math.floor((state.sent / size) * 100);
  const share = `${sizeText(Math.min(state.sent, size))} of ${sizeText(size)}`;
  const whole = sizeText(size);
  const words = {
    waiting: `${whole} · waiting`,
    sending: state.sent >= size ? `${whole} · checking` : `${share} · ${done} %`,
    paused: `${share} · paused`,
    left:
      state.sent >= size
        ? `${whole} · checking`
        : `${share} · incomplete. To resume, choose the same file again.`,
    retrying: `${share} · ${state.phase === "retrying" ? state.why : ""} Trying again…`,
    done: `${whole} · sent`,
    failed: whole,
  } satisfies Record<UploadState["phase"], string>;
  return words[state.phase];
}
