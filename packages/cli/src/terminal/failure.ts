import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { clearOrigin, isTlsFault, partsOnce } from "@sluice/core/internal";
import { proxyOrigin } from "@sluice/core/internal/node";
import { exitCodes, outcomes, type Outcome } from "./exit-code.ts";
import { printable } from "./print.ts";
import { formatBytes } from "./quantity.ts";

/** What a signal does to a run: the reason with which all work in progress rejects. */
export class Stopped extends Error {
  override readonly name = "Stopped";
  readonly outcome: Outcome;

  constructor(outcome: "interrupted" | "terminated") {
    super(outcome);
    this.outcome = outcome;
  }
}

const runAgain = "run the same command again";

/** What to do about an interrupted transfer, of which `bytes` need not travel again. */
export function goOnAdvice(bytes: number, state: "kept" | "sent"): string {
  return bytes === 0 ? runAgain : `${formatBytes(bytes)} are ${state}: ${runAgain} to resume`;
}

/** What to do next, by what went wrong. */
const hints: Partial<Record<SluiceErrorCode, string>> = {
  not_found: "see what is there with `sluice ls`",
  unauthenticated: "pass a token in SLUICE_TOKEN or with --token",
  permission_denied: "ask the server's operator for access",
  invalid_argument: "see `sluice help`",
  unsupported: "ask the server's operator to add resource streaming",
  precondition_failed: "it changed while it was read: run the same command again",
  too_large: "raise --max-size to take it",
  expired: runAgain,
  already_exists: "pass --force to replace it, or -o for another file",
  no_space: "make room and run the same command again",
  throttled: "wait a little and run the same command again",
  unavailable: "check the address and that the server runs, then run the same command again",
  timeout: runAgain,
  interrupted: runAgain,
  corrupt:
    "nothing was saved: run the same command again, and tell the server's operator if it persists",
  untrusted: "pass --trust ORIGIN if you trust that address with the download",
  protocol: "check that it is the address of an MCP server",
};

/** How a failed run ends. */
interface Failure {
  readonly outcome: Outcome;
  /** One line: what went wrong, and what to do next. */
  readonly line: string;
}

/** A thrown error, with better advice than its kind usually gets. */
export class Advice extends Error {
  override readonly name = "Advice";
  readonly advice: string | undefined;

  constructor(cause: unknown, advice: string | undefined) {
    super("", { cause });
    this.advice = advice;
  }
}

/** A fault that the command itself found: what is wrong, and what to do next. */
export function fault(code: SluiceErrorCode, message: string, advice: string): Advice {
  return new Advice(new SluiceError(code, message), advice);
}

/** Describes whatever a command threw. `takesOutput`: the command has the option `-o`. */
export function describeFailure(thrown: unknown, takesOutput = false): Failure {
  const { cause: error, advice } =
    thrown instanceof Advice ? thrown : { cause: thrown, advice: undefined };
  if (error instanceof Stopped)
    return { outcome: error.outcome, line: join(error.message, advice) };
  if (SluiceError.is(error)) {
    const outcome = localErrno(error) === undefined ? outcomes[error.code] : "target";
    return { outcome, line: join(error.message, advice ?? hintFor(error, takesOutput)) };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { outcome: "failed", line: join(message, advice) };
}

/** True when the same command may succeed later, and resume where this one ended. */
export function isResumableFault(error: unknown): boolean {
  return error instanceof Stopped || (SluiceError.is(error) && error.retryable);
}

/** Code of a fault of the operating system, such as ENOENT. */
export function errnoOf(error: unknown): string | undefined {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code !== undefined && /^E[A-Z]+$/.test(code) ? code : undefined;
}

/** An error and its causes, at most eight deep. */
export function causesOf(error: unknown): Error[] {
  const causes: Error[] = [];
  for (let at = error; at instanceof Error && causes.length < maxCauses; at = at.cause)
    causes.push(at);
  return causes;
}

const maxCauses = 8;

/** Status for `process.exit`. */
export function exitStatus(outcome: Outcome): number {
  return exitCodes[outcome].status;
}

/** Origin of an error that a server answered with. */
export const answerOrigin = "server";

/** Origin of an error of a server that requires a client certificate. */
export const tlsOrigin = "tls";

function hintFor(error: SluiceError, takesOutput: boolean): string | undefined {
  // its message ends with what to do, unless the server denied something
  if (error.origin === answerOrigin && outcomes[error.code] !== "denied") return undefined;
  if (error.origin === clearOrigin || error.origin === proxyOrigin) return undefined;
  if (isCertificateFault(error)) return certificateHint;
  if (error.origin === tlsOrigin || (error.code === "unauthenticated" && isTlsFault(error)))
    return "pass --cert FILE and --key FILE";
  // what it says ends with what to do
  if (error.code === "protocol" && isTlsFault(error)) return undefined;
  const errno = localErrno(error);
  if (errno === undefined && error.retryAfterMs !== undefined && error.retryable)
    return waitHint(error.retryAfterMs);
  if (errno === undefined) return hints[error.code];
  return localHints[takesOutput ? "get" : "other"][errno] ?? hints[error.code];
}

/** What to do if a server said how long it wants to be left alone. */
export function waitHint(retryAfterMs: number): string {
  return `wait ${Math.max(1, Math.ceil(retryAfterMs / 1_000))} s and ${runAgain}`;
}

/** True for a server whose certificate is not trusted: no option of ours makes it so. */
export function isCertificateFault(error: unknown): boolean {
  if (!SluiceError.is(error) || error.code !== "untrusted") return false;
  // a refusal of an address has no cause, or one of ours
  return error.cause instanceof Error && !SluiceError.is(error.cause);
}

const certificateHint =
  "pass --cacert FILE with the authority that you trust, or have its operator renew it";

const fewerFiles = "close other programs, or raise the limit (ulimit -n), and run it again";

/** What to do next, by what a file call on this machine said. */
function localHintsFor(takesOutput: boolean): Readonly<Record<string, string>> {
  const another = (what: string): string =>
    takesOutput ? `pass -o for another ${what}` : `name another ${what}`;
  const anotherFolder = `check the folder and its permissions, or ${another("place")}`;
  const anotherName = takesOutput ? "pass -o with another name" : "use another name";
  return {
    EACCES: anotherFolder,
    EPERM: anotherFolder,
    ENOENT: anotherFolder,
    ENOTDIR: anotherFolder,
    ELOOP: anotherFolder,
    EROFS: `the file system is read-only: ${another("place")}`,
    EISDIR: anotherName,
    ENAMETOOLONG: anotherName,
    EINVAL: anotherName,
    EILSEQ: anotherName,
    EDQUOT: "delete files of yours and run the same command again",
    EFBIG: `${another("file system")}, or raise the limit (ulimit -f)`,
    EMFILE: fewerFiles,
    ENFILE: fewerFiles,
    EIO: `check the disk, or ${another("one")}`,
  };
}

const localHints = { get: localHintsFor(true), other: localHintsFor(false) };

/** Message and advice. The libraries' messages end with advice of their own, for programmers: it is dropped. */
function join(message: string, hint: string | undefined): string {
  const text = partsOnce(printable(message.replaceAll(/\s+/g, " ").trim())).replace(
    /^(?:bridge|client|doctor|proxy|uploads): (?:files\/authorizeUpload: )?/,
    "",
  );
  if (hint === undefined) return text;
  const end = text.lastIndexOf("; ");
  return `${end < 0 ? text : text.slice(0, end)}; ${hint}`;
}

const localErrnos: ReadonlySet<string> = new Set([
  ...Object.keys(localHints.get),
  "ENOSPC",
  "EEXIST",
]);

/** The error of a file call on this machine, if that failed and not the server. */
function localErrno(error: SluiceError): string | undefined {
  const causes: NodeJS.ErrnoException[] = causesOf(error.cause);
  return causes.find(({ code = "", syscall }) => localErrnos.has(code) && syscall !== "connect")
    ?.code;
}
