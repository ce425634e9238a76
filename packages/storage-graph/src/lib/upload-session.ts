import { SluiceError } from "@sluice/core";
import { abortable, within } from "@sluice/core/async";
import type { WriteOptions } from "@sluice/storage";
import type { DriveItem } from "./drive-item.ts";
import { type GraphRoute, readAnswer } from "./graph-client.ts";
import { type GraphAnswer, toSluiceError } from "./graph-error.ts";

/** Fragments are multiples of 320 KiB, except the last; Microsoft advises 5 to 10 MiB. */
export const fragmentBytes: number = 16 * 320 * 1024;

const startMs = 60_000;
const cancelMs = 10_000;

/** An upload whose fragments come in order. */
export interface GraphUploadSession {
  /**
   * Sends the bytes from `position` on; the item comes with the last of them. A fragment that
   * broke is continued once where the service says that it stands.
   */
  send(position: number, bytes: Uint8Array): Promise<DriveItem | undefined>;
  /** Tells the service to forget what it has. Never rejects: what is left expires by itself. */
  cancel(): Promise<void>;
}

/** What an upload session makes. */
export interface GraphUploadTarget {
  readonly key: string;
  readonly total: number;
  readonly options: WriteOptions;
  readonly operation: string;
}

/** The condition of a write as headers and as what to do about a name that is taken. */
export function conditionsOf({ ifMatch, ifAbsent }: WriteOptions): {
  readonly headers: Readonly<Record<string, string>>;
  readonly conflictBehavior: "fail" | "replace";
} {
  return {
    headers: ifMatch === undefined ? {} : { "if-match": `"${ifMatch}"` },
    conflictBehavior: ifAbsent ? "fail" : "replace",
  };
}

/** Opens a session. Its URL is a secret of its own; the bearer must not go there. */
export function openUploadSession(
  { client, address }: GraphRoute,
  { key, total, options, operation }: GraphUploadTarget,
): GraphUploadSession {
  const { signal } = options;
  const { headers, conflictBehavior } = conditionsOf(options);
  const begin = async (): Promise<string> => {
    const { body } = await client.ask({
      method: "POST",
      target: address.toKey(key, "/createUploadSession"),
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ item: { "@microsoft.graph.conflictBehavior": conflictBehavior } }),
      expect: [200],
      operation,
    });
    const { uploadUrl } = (body ?? {}) as { uploadUrl?: unknown };
    if (typeof uploadUrl === "string") return uploadUrl;
    throw new SluiceError("protocol", `${operation}: the service gave no upload URL`);
  };
  // an abort does not end it: without its URL a session cannot be cancelled
  const starting = within(begin(), {
    timeoutMs: startMs,
    expired: () => new SluiceError("timeout", `${operation}: the upload session did not begin`),
  });
  // `send` throws the error
  starting.catch(() => {});

  const status = async (): Promise<GraphAnswer> => {
    const url = await starting;
    const response = await client.askAnonymously({ method: "GET", url, operation, signal });
    return readAnswer(response, operation, signal);
  };
  const put = async (start: number, bytes: Uint8Array): Promise<GraphAnswer> => {
    const range = `bytes ${start}-${start + bytes.byteLength - 1}/${total}`;
    const response = await client.askAnonymously({
      method: "PUT",
      url: await starting,
      headers: { "content-range": range, "content-length": String(bytes.byteLength) },
      body: bytes,
      operation,
      signal,
    });
    return readAnswer(response, operation, signal);
  };
  /** The first byte that the service has not got, by what it says of itself. */
  const nextByte = (answer: GraphAnswer): number => {
    const { nextExpectedRanges } = (answer.body ?? {}) as { nextExpectedRanges?: unknown };
    const first: unknown = Array.isArray(nextExpectedRanges) ? nextExpectedRanges[0] : undefined;
    const [, start] = typeof first === "string" ? (/^(\d{1,15})(?:-|$)/.exec(first) ?? []) : [];
    if (start === undefined)
      throw new SluiceError(
        "interrupted",
        `${operation}: the service lost its place in the upload`,
      );
    return Number(start);
  };
  const askPlace = async (): Promise<number> => {
    const answer = await status();
    if (answer.status !== 200) throw refusalOf(answer, operation);
    return nextByte(answer);
  };

  return {
    async send(position, bytes) {
      await abortable(starting, signal);
      const end = position + bytes.byteLength;
      let resumes = 1;
      for (let at = position; ;) {
        const answer = await put(at, bytes.subarray(at - position)).catch((error: unknown) => {
          signal?.throwIfAborted();
          if (resumes === 0) throw error;
          return undefined;
        });
        if (answer?.status === 200 || answer?.status === 201) return answer.body as DriveItem;
        // 416: the service has some of it already
        const isResumable =
          answer === undefined || answer.status === 416 || isServerFault(answer.status);
        if (answer !== undefined && answer.status !== 202 && !(isResumable && resumes > 0))
          throw refusalOf(answer, operation);
        if (isResumable) resumes--;
        const next = answer?.status === 202 ? nextByte(answer) : await askPlace();
        if (next === end) return undefined;
        if (next < position || next > end || (answer?.status === 202 && next <= at))
          throw new SluiceError("interrupted", `${operation}: the service is at another place`);
        at = next;
      }
    },
    async cancel() {
      const url = await starting.catch(() => undefined);
      if (url === undefined) return;
      const limit = AbortSignal.timeout(cancelMs);
      await client
        .askAnonymously({ method: "DELETE", url, operation, signal: limit })
        .then((response) => readAnswer(response, operation, limit))
        .catch(() => {});
    },
  };
}

/** 503 asks for a pause, so it is not tried again at once. */
function isServerFault(status: number): boolean {
  return status >= 500 && status !== 503 && status !== 507 && status !== 509;
}

/** What the upload host refuses is never about the credentials: it was not told any. */
function refusalOf(answer: GraphAnswer, operation: string): SluiceError {
  if (![401, 404, 410].includes(answer.status)) return toSluiceError(answer, operation);
  return new SluiceError("interrupted", `${operation}: the upload session is gone; start again`);
}
