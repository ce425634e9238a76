import { SluiceError } from "@sluice/core";
import { abortable, within } from "@sluice/core/internal";
import type { WriteOptions } from "@sluice/storage";
import { repeaterOf } from "@sluice/storage/plugin";
import type { DriveItem } from "./drive-item.ts";
import { type GraphRoute, readAnswer } from "./graph-client.ts";
import { type GraphAnswer, textOf, toSluiceError } from "./graph-error.ts";

/** Fragments are multiples of 320 KiB, except the last; Microsoft advises 5 to 10 MiB. */
export const fragmentBytes: number = 16 * 320 * 1024;

const startMs = 60_000;
const cancelMs = 10_000;

/** An upload whose fragments come in order. */
export interface GraphUploadSession {
  /**
   * Sends the bytes from `position` on; the item comes with the last of them. A fragment that broke is continued where the
   * service says that it stands.
   */
  send(position: number, bytes: Uint8Array): Promise<DriveItem | undefined>;
  /** Tells the service to forget its bytes. Never rejects: leftovers expire by themselves. */
  cancel(): Promise<void>;
}

/** The result of an upload session. */
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

/**
 * Opens a session. Its URL is itself a secret; the bearer must not go there. `findMade` gives the
 * item of the key when it is as long as this one, and was made since then.
 */
export function openUploadSession(
  { client, address }: GraphRoute,
  { key, total, options, operation }: GraphUploadTarget,
  findMade: (since: Date) => Promise<DriveItem | undefined>,
): GraphUploadSession {
  const { signal } = options;
  const repeat = repeaterOf(options, signal);
  const { headers, conflictBehavior } = conditionsOf(options);
  let begunAt = new Date(Number.NaN);
  const begin = async (): Promise<string> => {
    const { body, headers: said } = await client.ask({
      method: "POST",
      target: address.toKey(key, "/createUploadSession"),
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ item: { "@microsoft.graph.conflictBehavior": conflictBehavior } }),
      expect: [200],
      operation,
    });
    const { uploadUrl } = (body ?? {}) as { uploadUrl?: unknown };
    begunAt = new Date(textOf(said["date"]) ?? Number.NaN);
    if (typeof uploadUrl === "string") return uploadUrl;
    throw new SluiceError("protocol", `${operation}: the service gave no upload URL`);
  };
  // an abort does not end it: without its URL a session cannot be cancelled
  const starting = within(repeat(begin), {
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
  const putRange = async (start: number, bytes: Uint8Array): Promise<GraphAnswer> => {
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
  /** The first byte that the service has not got, as it reports. */
  const nextByte = (answer: GraphAnswer): number => {
    const { nextExpectedRanges } = (answer.body ?? {}) as { nextExpectedRanges?: unknown };
    const first: unknown = Array.isArray(nextExpectedRanges) ? nextExpectedRanges[0] : undefined;
    const [, start] = typeof first === "string" ? (/^(\d{1,15})(?:-|$)/.exec(first) ?? []) : [];
    if (start === undefined)
      throw new SluiceError(
        "interrupted",
        `${operation}: the service lost its offset in the upload`,
      );
    return Number(start);
  };
  /** Where a session stands after a response that was lost. One that is gone may have made the item with its last bytes. */
  const askPlace = async (end: number): Promise<number | DriveItem> => {
    const answer = await status();
    if (answer.status === 200) return nextByte(answer);
    const item = isGone(answer) && end === total ? await findMade(begunAt) : undefined;
    if (item) return item;
    throw refusalOf(answer, operation);
  };

  return {
    async send(position, bytes) {
      await abortable(starting, signal);
      const end = position + bytes.byteLength;
      let at: number | undefined = position;
      const sendOn = async (): Promise<DriveItem | undefined> => {
        for (;;) {
          // whatever became of the fragment before, the service knows
          const place: number | DriveItem = at ?? (await askPlace(end));
          if (typeof place !== "number") return place;
          if (place === end) return undefined;
          if (place < position || place > end)
            throw new SluiceError("interrupted", `${operation}: the service is at another offset`);
          at = undefined;
          const answer = await putRange(place, bytes.subarray(place - position));
          if (answer.status === 200 || answer.status === 201) return itemOf(answer, operation);
          if (answer.status !== 202) throw refusalOf(answer, operation);
          at = nextByte(answer);
          if (at <= place)
            throw new SluiceError("interrupted", `${operation}: the service is at another offset`);
        }
      };
      return repeat(sendOn);
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

/** The item that a response brings; a page of something else brings none. */
function itemOf({ body }: GraphAnswer, operation: string): DriveItem {
  if (typeof body === "object" && body !== null) return body;
  throw new SluiceError("unavailable", `${operation}: the answer does not name the file`);
}

function isGone({ status }: GraphAnswer): boolean {
  return status === 401 || status === 404 || status === 410;
}

/** A refusal of the upload host is never about credentials: it got none. */
function refusalOf(answer: GraphAnswer, operation: string): SluiceError {
  if (isGone(answer))
    return new SluiceError("interrupted", `${operation}: the upload session is gone; start again`);
  // the service has some of it already
  if (answer.status === 416)
    return new SluiceError("interrupted", `${operation}: the service is at another offset`);
  return toSluiceError(answer, operation);
}
