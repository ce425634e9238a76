import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { within } from "@sluice/core/internal";
import type { StorageBackend } from "@sluice/storage";
import { fault } from "../terminal/failure.ts";
import { note, printable } from "../terminal/print.ts";
import { credentialSources, parseStorageUrl, type StorageUrl } from "./storage-url.ts";

/** The storage that a server is about to serve. */
interface LookedAt {
  /** As the user named it. */
  readonly source: string;
  /** As the plugin made it: wrappers would try again. */
  readonly backend: StorageBackend;
  /** Default: 10 s. */
  readonly timeoutMs?: number;
  readonly signal: AbortSignal;
}

/**
 * Asks a storage for one entry, so that wrong credentials, names and addresses show before a client comes. Throws
 * faults that say what to do. A storage that asks for a pause is there, and a bucket or container that allows no lists
 * may still give files.
 */
export async function lookAtStorage({
  source,
  backend,
  timeoutMs = 10_000,
  signal,
}: LookedAt): Promise<void> {
  const lookEnd = new AbortController();
  const options = { limit: 1, signal: AbortSignal.any([signal, lookEnd.signal]) };
  const expired = (): Error =>
    new SluiceError("timeout", `${backend.name}: no answer in ${timeoutMs / 1_000} s`);
  try {
    await within(backend.list(options), { timeoutMs, expired, signal });
  } catch (error) {
    if (signal.aborted || !SluiceError.is(error)) throw error;
    const { code, message } = error;
    if (code === "throttled") return;
    const { kind } = parseStorageUrl(source);
    if (code !== "permission_denied" || kind === "graph")
      throw fault(code, `${source}: ${message}`, adviceFor(kind, code));
    note(
      `${printable(source)} cannot be listed, only read by URI: ${printable(message)}; check the permissions of these credentials`,
    );
  } finally {
    lookEnd.abort();
  }
}

function adviceFor(kind: EntryKind, code: SluiceErrorCode): string {
  if (code === "unauthenticated") return credentialSources[kind] ?? names[kind];
  const isName = code === "not_found" || code === "permission_denied";
  return isName ? names[kind] : addresses[kind];
}

type EntryKind = StorageUrl["kind"];

const names: Readonly<Record<EntryKind, string>> = {
  file: "check the path",
  s3: "check the name of the bucket, and region= and endpoint= in the URL",
  azblob: "check the name of the container, and that it is in this account",
  graph: "check the id of the drive, the path after it, and the permissions of the token",
};

/** For a service that cannot be reached, and for responses that are not its own. */
const addresses: Readonly<Record<EntryKind, string>> = {
  file: "check the path",
  s3: "check the network, and region= and endpoint= in the URL; without region= AWS_REGION counts",
  azblob: "check the network, and the account in AZURE_STORAGE_ACCOUNT or the connection string",
  graph: "check the network",
};

/** Throws faults of a storage URL, or of its plugin, that say what to write or install. */
export function refuseStorage(error: unknown): never {
  if (!(error instanceof TypeError)) throw error;
  const { message } = error;
  const end = message.lastIndexOf("; ");
  const [what, advice] =
    end < 0
      ? [message, "see `sluice help serve`"]
      : [message.slice(0, end), message.slice(end + 2)];
  throw fault("invalid_argument", what, advice);
}

const quietMs = 60_000;

/** Faults of which the server itself tells its clients and its log no cause. */
const silent: ReadonlySet<SluiceErrorCode> = new Set([
  "not_found",
  "permission_denied",
  "unauthenticated",
  "throttled",
  "unavailable",
  "timeout",
]);

/** The backend, with a line in the log for a list that fails: of each kind of fault at most one a minute. */
export function tellListFaults(
  backend: StorageBackend,
  write: (line: string) => void,
  now: () => number = Date.now,
): StorageBackend {
  const loggedAt = new Map<SluiceErrorCode, number>();

  function tell({ code, message }: SluiceError): void {
    const last = loggedAt.get(code) ?? -Infinity;
    if (!silent.has(code) || now() - last < quietMs) return;
    loggedAt.set(code, now());
    write(`sluice: ${printable(message)}`);
  }

  return {
    ...backend,
    async list(options) {
      try {
        return await backend.list(options);
      } catch (error) {
        if (SluiceError.is(error) && !options?.signal?.aborted) tell(error);
        throw error;
      }
    },
  };
}
