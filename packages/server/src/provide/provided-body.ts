import { processSource } from "./process-source.ts";
import {
  RedirectError,
  type ProvidedPipe,
  type ProvidedProcess,
  type ProvidedResponse,
  type ProvidedUrl,
} from "./provider.ts";
import { responseSource } from "./response-source.ts";
import {
  kindOf,
  bytesSource,
  iterableSource,
  readableSource,
  streamSource,
  textSource,
  type ProvidedSource,
  type SourceTerms,
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
