/** What was sent could not be answered: the network, the server or the time. Worth another try. */
export class Interrupted extends Error {
  /** How long the server wants to be left alone, in milliseconds. */
  readonly waitMs: number | undefined;
  constructor(message: string, waitMs?: number) {
    super(message);
    this.waitMs = waitMs;
  }
}

export interface Answer {
  readonly status: number;
  readonly json: unknown;
  header(name: string): string | undefined;
}

export interface Sending {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Blob | string;
  readonly signal: AbortSignal;
  /** Bytes of the body that are on their way. */
  readonly onSent?: (bytes: number) => void;
}

/** A connection silent for this long has failed. */
const silenceMs = 30_000;
/** A whole file may be put together and looked into before it is answered. */
const thoughtMs = 11 * 60_000;

/** One request. `XMLHttpRequest` is what tells of a body while it is sent. */
export function send({
  method,
  url,
  headers = {},
  body,
  signal,
  onSent,
}: Sending): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const { upload } = request;
    let patience: ReturnType<typeof setTimeout>;
    const wait = (ms: number): void => {
      clearTimeout(patience);
      patience = setTimeout(() => {
        fail(new Interrupted("The server does not answer."));
        request.abort();
      }, ms);
    };
    const end = (): void => {
      clearTimeout(patience);
      signal.removeEventListener("abort", onAbort);
    };
    const fail = (error: unknown): void => {
      end();
      reject(error);
    };
    const onAbort = (): void => {
      fail(signal.reason);
      request.abort();
    };
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener("abort", onAbort);
    request.open(method, url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    if (onSent) {
      upload.addEventListener("progress", ({ loaded }) => {
        wait(silenceMs);
        onSent(loaded);
      });
      upload.addEventListener("load", () => wait(thoughtMs));
    }
    request.addEventListener("error", () => fail(new Interrupted("The connection was lost.")));
    request.addEventListener("load", () => {
      end();
      resolve({
        status: request.status,
        json: jsonOf(request.responseText),
        header: (name) => request.getResponseHeader(name) ?? undefined,
      });
    });
    wait(silenceMs);
    request.send(body ?? null);
  });
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Loads a page of the server: it is parsed, and nothing of it runs. Rejects with {@link Interrupted}. */
export function getDocument(
  url: string,
  signal: AbortSignal,
): Promise<{ readonly status: number; readonly page: Document }> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const request = new XMLHttpRequest();
    request.open("GET", url);
    request.responseType = "document";
    request.timeout = silenceMs;
    const abort = (): void => request.abort();
    signal.addEventListener("abort", abort);
    request.addEventListener("loadend", () => {
      signal.removeEventListener("abort", abort);
      const { status, responseXML: page } = request;
      if (signal.aborted) reject(signal.reason);
      else if (page) resolve({ status, page });
      else reject(new Interrupted("The connection was lost."));
    });
    request.send();
  });
}

/** Asks for something that is never kept: another tab that waits for the same does not keep this one waiting. */
export async function get(
  url: string,
  signal: AbortSignal,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(silenceMs)]);
  try {
    const answer = await fetch(url, { cache: "no-store", headers, signal: late });
    const text = await answer.text();
    return {
      status: answer.status,
      json: jsonOf(text),
      header: (name) => answer.headers.get(name) ?? undefined,
    };
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Interrupted("The connection was lost.");
  }
}
