import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import {
  backgroundClock,
  definedMembers,
  isInTime,
  parseContentRange,
  parseRetryAfter,
} from "@sluice/core/internal";
import {
  type ProvidedPipe,
  type ProvidedProcess,
  type ProvidedResponse,
  type ProvidedUrl,
  RedirectError,
} from "./provider.ts";
import {
  bytesSource,
  iterableSource,
  kindOf,
  type ProvidedSource,
  readableSource,
  type SourceTerms,
  streamSource,
  textSource,
} from "./stream-source.ts";

/**
 * The bytes of what a provider gave, which is known by its shape: it may come from another realm or another copy of a
 * library. Throws a {@link RedirectError} for a URL, and a `TypeError` for what a provider cannot give.
 */
export function toSource(provided: unknown, terms: SourceTerms): ProvidedSource {
  if (typeof provided === "string") return textSource(provided, terms);
  if (provided instanceof Uint8Array) return bytesSource(provided, terms);
  if (isResponse(provided)) return responseSource(provided, terms);
  if (isUrl(provided)) throw redirectTo(provided, terms);
  if (isProcess(provided)) return processSource(provided, terms);
  if (isStream(provided)) return streamSource(provided, terms);
  if (isReadable(provided)) return readableSource(provided, terms);
  if (isIterable(provided)) return iterableSource(provided, terms);
  throw new TypeError(
    `provider of ${terms.uri}: it gave ${kindOf(provided)}; give text, bytes, a stream, an async iterable, a Response, a child process or { url, expiresAt }`,
  );
}

/** Ends what a provider gave too late to be of use. Never throws. */
export function discardProvided(provided: unknown, terms: SourceTerms): void {
  try {
    toSource(provided, terms).release();
  } catch {
    // there is nothing to end
  }
}

function redirectTo(
  { url, expiresAt }: ProvidedUrl,
  { operation, uri, info }: SourceTerms,
): RedirectError {
  const isAbsolute = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  if (!isAbsolute || !Number.isFinite(expiresAt))
    throw new TypeError(
      `provider of ${uri}: it gave a URL that is not absolute, or an expiresAt that is not in Unix milliseconds`,
    );
  if (expiresAt <= Date.now())
    throw new TypeError(`provider of ${uri}: it gave a URL that has expired`);
  return new RedirectError(operation, { url, expiresAt }, info);
}

function isResponse(given: unknown): given is ProvidedResponse {
  const { status, headers, body } = membersOf(given);
  return typeof status === "number" && hasMethod(headers, "get") && body !== undefined;
}

function isUrl(given: unknown): given is ProvidedUrl {
  const { url, expiresAt } = membersOf(given);
  return typeof url === "string" && expiresAt !== undefined;
}

function isProcess(given: unknown): given is ProvidedProcess {
  return hasMethod(given, "kill") && hasMethod(given, "once");
}

function isStream(given: unknown): given is ReadableStream<unknown> {
  return hasMethod(given, "getReader");
}

function isReadable(given: unknown): given is ProvidedPipe {
  return isIterable(given) && hasMethod(given, "destroy") && hasMethod(given, "on");
}

function isIterable(given: unknown): given is AsyncIterable<unknown> {
  return hasMethod(given, Symbol.asyncIterator);
}

function hasMethod(given: unknown, name: string | symbol): boolean {
  return typeof membersOf(given)[name] === "function";
}

function membersOf(given: unknown): Readonly<Record<string | symbol, unknown>> {
  return Object(given) as Record<string | symbol, unknown>;
}

/** The body of a response of another HTTP server. Throws for a response without success, and ends its body. */
function responseSource(response: ProvidedResponse, terms: SourceTerms): ProvidedSource {
  const { operation } = terms;
  try {
    if (!response.ok) throw refusal(response, operation);
    const extent = readExtent(response, operation);
    const contentType = response.headers.get("content-type") ?? undefined;
    return { ...bodySource(response, terms), ...extent, ...definedMembers({ contentType }) };
  } catch (error) {
    discardResponse(response, error);
    throw error;
  }
}

function discardResponse({ body }: ProvidedResponse, reason: unknown): void {
  if (body && !body.locked) body.cancel(reason).catch(() => {});
}

function bodySource({ body, url }: ProvidedResponse, terms: SourceTerms): ProvidedSource {
  if (!body) return { next: async () => undefined, release() {} };
  // one that the provider made itself has no connection
  if (url === "") return streamSource(body, terms);
  const { next, release } = streamSource(body, terms, "hand-over");
  return {
    async next() {
      try {
        return await next();
      } catch (cause) {
        throw new SluiceError(
          "interrupted",
          `${terms.operation}: the connection to the other server broke`,
          { cause },
        );
      }
    },
    release,
  };
}

/** Where the bytes lie in the whole, and how long that is. */
function readExtent(
  { status, url, headers, body }: ProvidedResponse,
  operation: string,
): Pick<ProvidedSource, "start" | "size" | "needsSize"> {
  if (status === 206) {
    const { range, size } = parseContentRange(headers.get("content-range")) ?? {};
    if (!range || (size !== undefined && range.end !== size))
      throw new SluiceError(
        "corrupt",
        `${operation}: the other server sent a part that does not go to the end`,
      );
    return { start: range.start, ...definedMembers({ size }) };
  }
  const length = headers.get("content-length");
  // what fetch decodes on the way has another length
  const isSize = length !== null && /^\d{1,15}$/.test(length) && !headers.get("content-encoding");
  const isFramed = length !== null || headers.get("transfer-encoding") !== null;
  return {
    start: 0,
    ...definedMembers({ size: isSize ? Number(length) : undefined }),
    needsSize: body !== null && url !== "" && !isFramed,
  };
}

/** A response without success. 401 and 403 are about the credentials of this server. */
function refusal({ status, headers }: ProvidedResponse, operation: string): SluiceError {
  const retryAfterMs = parseRetryAfter(headers.get("retry-after"), Date.now());
  return new SluiceError(
    codes.get(status) ?? "unavailable",
    `${operation}: the other server answered HTTP ${status}`,
    definedMembers({ retryAfterMs }),
  );
}

const codes: ReadonlyMap<number, SluiceErrorCode> = new Map([
  [404, "not_found"],
  [410, "not_found"],
  [429, "throttled"],
]);

/** How long a process may take to end after SIGTERM, in milliseconds. */
const graceMs = 5_000;
/** How long the last words on stderr may take after the end, in milliseconds. */
const lastWordsMs = 1_000;
const keptCharacters = 4_096;

/** How a process ended, or why it did not begin. */
interface ProcessEnd {
  readonly code?: number | null;
  readonly signal?: string | null;
  readonly fault?: unknown;
}

/**
 * The stdout of a child process. Its end counts once the process ended with 0. `release` ends the process: SIGTERM, and
 * SIGKILL after 5 s.
 */
function processSource(child: ProvidedProcess, terms: SourceTerms): ProvidedSource {
  const { operation } = terms;
  const exit = watchEnding(child);
  const lastWords = readLastWords(child);

  function end(): void {
    child.stdout?.destroy();
    child.stderr?.destroy();
    if (child.exitCode !== null || child.signalCode !== null || !child.kill("SIGTERM")) return;
    const cancel = backgroundClock.schedule(() => void child.kill("SIGKILL"), graceMs);
    child.once("exit", cancel);
  }

  let bytes: ProvidedSource;
  try {
    bytes = stdoutSource(child, terms);
  } catch (error) {
    end();
    throw error;
  }
  return {
    async next() {
      const chunk = await bytes.next();
      if (chunk !== undefined) return chunk;
      const { code, signal, fault } = await exit;
      if (code === 0) return undefined;
      const cause = fault ?? (await lastWords());
      if (typeof signal === "string")
        throw new SluiceError("interrupted", `${operation}: the process was ended by ${signal}`, {
          cause,
        });
      const finding = fault === undefined ? `ended with code ${code}` : "failed";
      throw new SluiceError("internal", `${operation}: the process ${finding}`, { cause });
    },
    release: end,
  };
}

function stdoutSource({ stdout }: ProvidedProcess, terms: SourceTerms): ProvidedSource {
  if (!stdout || typeof stdout.readableEncoding === "string")
    throw new TypeError(
      `provider of ${terms.uri}: the process has no stdout of bytes; use spawn, with a pipe for stdout and no encoding`,
    );
  const source = readableSource(stdout, terms);
  // Node drops what lies in the stdout of a process that ends, unless there is a reader
  stdout.on("readable", () => {});
  return source;
}

/** Resolves when the process has ended, even if it did before this call. */
function watchEnding(child: ProvidedProcess): Promise<ProcessEnd> {
  return new Promise((resolve) => {
    // stays: a kill and an abort may also fail with one
    child.on("error", (fault: unknown) => resolve({ fault }));
    child.once("exit", (code: number | null, signal: string | null) => resolve({ code, signal }));
    const { exitCode: code, signalCode: signal } = child;
    if (code !== null || signal !== null) resolve({ code, signal });
  });
}

/** Drains stderr, so that the process never waits for it. Gives its last characters, once the process closed it. */
function readLastWords({ stderr }: ProvidedProcess): () => Promise<string | undefined> {
  if (!stderr) return async () => undefined;
  const decoder = new TextDecoder();
  let words = "";
  stderr.on("data", (chunk: Uint8Array | string) => {
    const text = typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
    words = (words + text).slice(-keptCharacters);
  });
  const closed = whenClosed(stderr);
  return async () => {
    await isInTime(closed, lastWordsMs);
    return words;
  };
}

function whenClosed(pipe: ProvidedPipe): Promise<void> {
  return new Promise((resolve) => {
    pipe.on("error", () => resolve());
    pipe.on("close", () => resolve());
  });
}
