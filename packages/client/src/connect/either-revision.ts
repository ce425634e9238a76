/** How a client of SDK version 2 finds out what its server speaks. */
export type RevisionSearch =
  | { readonly mode: "auto"; readonly probe: { readonly timeoutMs: number } }
  | { readonly mode: "legacy" };

/** A server that is silent for as long does not know `server/discover`. */
const silenceMs = 5_000;

/**
 * Connects by `server/discover`, or else by `initialize`: servers that do not know the former fail at it in every way. A
 * response that is about the caller, a server that was not reached, and an abort end it at once.
 */
export async function connectEither<T>(
  connect: (versionNegotiation: RevisionSearch) => Promise<T>,
): Promise<T> {
  try {
    return await connect({ mode: "auto", probe: { timeoutMs: silenceMs } });
  } catch (error) {
    if (isFinal(error)) throw error;
    return connect({ mode: "legacy" });
  }
}

/** An error of the SDK, or what it is of. */
interface ConnectFault {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly data?: { readonly status?: unknown } | undefined;
  readonly cause?: unknown;
  readonly errors?: unknown;
}

/** An error and its causes, the outermost first, at most eight. */
export function causesOf(error: unknown): readonly ConnectFault[] {
  const faults: ConnectFault[] = [];
  for (let at = error; faults.length < 8 && typeof at === "object" && at !== null;) {
    const fault: ConnectFault = at;
    faults.push(fault);
    at = fault.cause ?? (Array.isArray(fault.errors) ? fault.errors[0] : undefined);
  }
  return faults;
}

function isFinal(error: unknown): boolean {
  return causesOf(error).some(
    ({ name, code, data }) =>
      finalNames.has(name) || finalCodes.has(code) || finalStatuses.has(data?.status),
  );
}

const finalNames: ReadonlySet<unknown> = new Set([
  "AbortError",
  "SluiceError",
  "UnauthorizedError",
]);
const finalStatuses: ReadonlySet<unknown> = new Set([401, 403, 429]);
/** The server was not reached, or TLS refused it. */
const finalCodes: ReadonlySet<unknown> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);
