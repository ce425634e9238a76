import { SluiceError } from "@sluice/core";
import { backgroundClock, isInTime } from "@sluice/core/internal";
import type { ProvidedPipe, ProvidedProcess } from "./provider.ts";
import { readableSource, type ProvidedSource, type SourceTerms } from "./stream-source.ts";

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
export function processSource(child: ProvidedProcess, terms: SourceTerms): ProvidedSource {
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
