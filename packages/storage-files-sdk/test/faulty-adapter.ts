import type { ErrorPage, Faults } from "@sluice/storage/conformance";
import { createBody } from "@sluice/storage/plugin";
import { type Adapter, createStoredFile, FilesError, type StoredFile } from "files-sdk";

type BodyFault = { readonly kind: "reset" | "truncate" | "overrun" | "stall"; readonly at: number };

/** An adapter with faults, and counts of its calls. */
export interface FaultyAdapter {
  readonly adapter: Adapter;
  readonly faults: Faults;
  readonly countHandles: () => number;
  readonly countRequests: () => number;
  readonly countBytes: () => number;
}

/** An error of a client of a service, as the adapters pass it on. */
function serviceError(status: number, headers: Readonly<Record<string, string>> = {}): FilesError {
  const cause = Object.assign(new Error(`${status} of https://storage.invalid/?token=hunter2`), {
    $metadata: { httpStatusCode: status },
    $response: { headers },
  });
  return new FilesError(status === 403 ? "Unauthorized" : "Provider", cause.message, cause);
}

/** Puts faults between an adapter and whoever reads through it. */
export function createFaultyAdapter(target: Adapter): FaultyAdapter {
  let open = 0;
  let requests = 0;
  let bytes = 0;
  let refusal: FilesError | undefined;
  let bodyFault: BodyFault | undefined;
  let ignoresRange = false;
  let page: ErrorPage | undefined;
  let validator: "none" | "other" | undefined;
  const denied = new Set<string>();

  const request = (key?: string): void => {
    requests++;
    const now = refusal;
    refusal = undefined;
    if (now) throw now;
    if (key !== undefined && denied.has(key)) throw serviceError(403);
  };
  const counted = (file: StoredFile): ReadableStream<Uint8Array> => {
    const fault = bodyFault;
    bodyFault = undefined;
    const reader = file.stream().getReader();
    open++;
    let sent = 0;
    let rest: Uint8Array | undefined;
    return createBody({
      async next() {
        rest ??= (await reader.read()).value;
        if (fault && fault.kind !== "overrun" && sent >= fault.at) {
          if (fault.kind === "truncate") return undefined;
          if (fault.kind === "stall") return new Promise<never>(() => {});
          throw new Error("read ECONNRESET");
        }
        if (rest === undefined) {
          if (fault?.kind !== "overrun" || sent > file.size) return undefined;
          sent += fault.at;
          return new Uint8Array(fault.at);
        }
        const chunk = rest.subarray(0, 64 * 1024);
        rest = rest.byteLength > chunk.byteLength ? rest.subarray(chunk.byteLength) : undefined;
        sent += chunk.byteLength;
        bytes += chunk.byteLength;
        return chunk;
      },
      async release(reason) {
        open--;
        await reader.cancel(reason);
      },
    });
  };

  const adapter: Adapter = {
    ...target,
    async head(key, options) {
      request(key);
      return target.head(key, options);
    },
    async list(options) {
      request();
      return target.list(options);
    },
    async download(key, { range, ...options } = {}) {
      request(key);
      const { text, type } = page ?? {};
      page = undefined;
      if (text !== undefined && type !== undefined) {
        const data = new TextEncoder().encode(text);
        return createStoredFile({ key, size: data.byteLength, type }, { kind: "buffer", data });
      }
      const asked = range && !ignoresRange ? { ...options, range } : options;
      ignoresRange = false;
      const file = await target.download(key, asked);
      const { etag, ...unmarked } = file;
      const named = validator === undefined ? etag : validator === "other" ? "another" : undefined;
      validator = undefined;
      const meta = { ...unmarked, ...(named !== undefined && { etag: named }) };
      return createStoredFile(meta, { kind: "stream", factory: () => counted(file) });
    },
  };
  const fault =
    (kind: BodyFault["kind"]) =>
    (at: number): void =>
      void (bodyFault = { kind, at });
  return {
    adapter,
    faults: {
      reset: fault("reset"),
      truncate: fault("truncate"),
      overrun: fault("overrun"),
      stall: fault("stall"),
      ignoreRange: () => void (ignoresRange = true),
      page: (next) => void (page = next),
      validator: (named) => void (validator = named),
      throttle: (retryAfter) => void (refusal = serviceError(503, { "retry-after": retryAfter })),
      fail: () => void (refusal = serviceError(500)),
      deny: (key) => void denied.add(key),
    },
    countHandles: () => open,
    countRequests: () => requests,
    countBytes: () => bytes,
  };
}
