import { mkdtempSync, openSync, closeSync, rmSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SluiceError } from "@sluice/core";
import { parseRetryAfter } from "@sluice/core/internal";
import {
  createMemoryBackend,
  type MemoryBackend,
  type OpenedObject,
  type OpenOptions,
  type PresignOptions,
  type Repeat,
  type StorageBackend,
  wrapBackend,
} from "@sluice/storage";
import { createBody, repeaterOf, resolveRange } from "@sluice/storage/plugin";
import { ensureKey } from "../src/contract/key.ts";
import { createLargeContent, type ErrorPage, type Fixture } from "@sluice/storage/conformance";

const secret = "hunter2";
const host = "storage.invalid";
const fileKeys = new Set(["file.bin", "verify.bin", "close.bin"]);

/** The faults that the simulated service is to show, and its counts. */
interface ServiceState {
  handles: number;
  requests: number;
  bytes: number;
  leftovers: number;
  /** Ids of objects in steps. */
  unfinished: Set<string>;
  passedMs: number;
  throttle?: string | undefined;
  expired: number;
  fails: boolean;
  losesAnswer: boolean;
  ignoresRange: boolean;
  page?: ErrorPage | undefined;
  validator?: "none" | "other" | undefined;
  denied: Set<string>;
  folders: Set<string>;
  clutter: Set<string>;
  outside: Map<string, string>;
  body?: { kind: "reset" | "truncate" | "overrun" | "stall" | "corrupt"; at: number } | undefined;
}

/** A service in memory that can do all that the kit can ask for, so that every rule has something to check. */
export interface Service {
  readonly store: MemoryBackend;
  readonly state: ServiceState;
  readonly backend: StorageBackend;
  readonly fixture: Fixture;
}

export function createReferenceService(): Service {
  const store = createMemoryBackend();
  const state: ServiceState = {
    handles: 0,
    requests: 0,
    bytes: 0,
    leftovers: 0,
    unfinished: new Set(),
    passedMs: 0,
    expired: 0,
    fails: false,
    losesAnswer: false,
    ignoresRange: false,
    denied: new Set(),
    folders: new Set(),
    clutter: new Set(),
    outside: new Map(),
  };
  const backend = createReferenceBackend(store, state);
  const fixture: Fixture = {
    backend,
    traits: { credentialsExpireAt: new Date(Date.now() + 7_200_000) },
    put: async (key, content) => void store.put(key, content),
    remove: (key) => store.remove(key),
    putTyped: async (key, content, type) => void store.put(key, content, type),
    putLarge: async (key, size, tail) => void store.put(key, createLargeContent(size, tail)),
    overwrite: async (key, content) => void store.put(key, content),
    async touch(key) {
      const { body, info } = await store.open(key);
      store.put(key, new Uint8Array(await new Response(body).arrayBuffer()), {
        ...(info.contentType !== undefined && { contentType: info.contentType }),
      });
    },
    async putFolder() {
      state.folders.add("folder");
      return "folder";
    },
    async putClutter() {
      state.clutter.add(".upload-1.tmp").add("b/");
    },
    alias: (key) => `link-to/${key}`,
    async putOutside() {
      state.outside.set("../root-evil/x.txt", "canary").set("link-out/x.txt", "canary");
      return {
        sibling: ["../root-evil/x.txt"],
        escapes: ["link-out/x.txt", "%2e%2e/root-evil/x.txt"],
      };
    },
    reopen: async () => createReferenceBackend(store, state),
    faults: {
      reset: (at) => void (state.body = { kind: "reset", at }),
      truncate: (at) => void (state.body = { kind: "truncate", at }),
      overrun: (at) => void (state.body = { kind: "overrun", at }),
      stall: (at) => void (state.body = { kind: "stall", at }),
      corrupt: (at) => void (state.body = { kind: "corrupt", at }),
      ignoreRange: () => void (state.ignoresRange = true),
      page: (page) => void (state.page = page),
      validator: (named) => void (state.validator = named),
      throttle: (retryAfter) => void (state.throttle = retryAfter),
      fail: () => void (state.fails = true),
      loseAnswer: () => void (state.losesAnswer = true),
      deny: (key) => void state.denied.add(key),
      expireCredentials: (times) => void (state.expired = times),
    },
    countHandles: () => state.handles,
    countRequests: () => state.requests,
    countBytes: () => state.bytes,
    countLeftovers: () => state.leftovers + state.unfinished.size,
    secrets: [secret, host],
    fetch: async (url, init) => answer(store, state, new URL(url), init),
    passTime: async (ms) => void (state.passedMs += ms),
    dispose: () => store.close(),
  };
  return { store, state, backend, fixture };
}

function createReferenceBackend(store: MemoryBackend, state: ServiceState): StorageBackend {
  const begin = (operation: string, key: string, signal?: AbortSignal): string => {
    signal?.throwIfAborted();
    ensureKey(key, `memory: ${operation}`);
    request(state, operation);
    if (state.denied.has(key))
      throw new SluiceError("permission_denied", `memory: ${operation}: denied`);
    if (state.folders.has(key))
      throw new SluiceError("unsupported", `memory: ${operation}: a folder`);
    return key.startsWith("link-to/") ? key.slice("link-to/".length) : key;
  };
  const plain = wrapBackend(store, {
    describe: (describe) => async (key, options) =>
      describe(begin("describe", key, options?.signal), options),
    open:
      (open) =>
      async (key, options = {}) => {
        if (options.range) resolveRange(options.range, Infinity, "memory: open");
        const name = begin("open", key, options.signal);
        ensureEvidence(state);
        const opened = await open(name, options);
        const { release, ...faulty } = faultyBody(opened, options, state);
        if (key === "memory.bin") {
          await release();
          const { body } = await store.open(key, options);
          return { ...faulty, bytes: new Uint8Array(await new Response(body).arrayBuffer()) };
        }
        return fileKeys.has(key) ? withFile(store, faulty, release) : faulty;
      },
    list: (list) => async (options) => {
      options?.signal?.throwIfAborted();
      request(state, "list");
      return list(options);
    },
    remove: (remove) => async (key, options) =>
      remove(begin("remove", key, options?.signal), options),
    write:
      (write) =>
      async (key, options = {}) => {
        const repeat = repeaterOf(options, options.signal);
        const writer = await write(key, options);
        let open = true;
        state.leftovers++;
        const finish = (): void => {
          if (open) state.leftovers--;
          open = false;
        };
        return {
          // a failed write ends the writer
          write: (chunk) =>
            repeat(async () => ensureWorking(state))
              .then(() => writer.write(chunk))
              .catch(async (error: unknown) => {
                finish();
                await writer.abort(error);
                throw error;
              }),
          commit: () =>
            commitOnce(repeat, state, () => writer.commit())
              .catch(async (error: unknown) => {
                await writer.abort(error);
                throw error;
              })
              .finally(finish),
          abort: (reason) => writer.abort(reason).finally(finish),
          [Symbol.asyncDispose]: () => writer.abort().finally(finish),
        };
      },
    writeInSteps:
      (writeInSteps) =>
      async (key, options = {}) => {
        const repeat = repeaterOf(options, options.signal);
        const name = await repeat(async () => begin("write in steps", key, options.signal));
        const writer = await writeInSteps(name, options);
        const { id, offset } = writer;
        state.unfinished.add(id);
        let isSuspended = false;
        return {
          id,
          offset,
          async write(chunk) {
            await repeat(async () => ensureWorking(state));
            await writer.write(chunk);
          },
          async suspend() {
            const end = await writer.suspend();
            isSuspended = true;
            return end;
          },
          async commit() {
            const info = await commitOnce(repeat, state, () => writer.commit());
            state.unfinished.delete(id);
            return info;
          },
          async abort() {
            await writer.abort();
            if (!isSuspended) state.unfinished.delete(id);
          },
        };
      },
  });
  return {
    ...plain,
    async presign(key, { expiresInMs, contentType, contentDisposition, signal }: PresignOptions) {
      await plain.describe(begin("presign", key, signal));
      const expiresAt = Date.now() + Math.min(expiresInMs, 7_200_000 - 5000);
      const url = sign(key, {
        key,
        expires: String(expiresAt),
        ...(contentType !== undefined && { type: contentType }),
        ...(contentDisposition !== undefined && { disposition: contentDisposition }),
      });
      return { url, expiresAt };
    },
    async presignOrigins({ signal } = {}) {
      signal?.throwIfAborted();
      return [`https://${host}`];
    },
  };
}

/** One request, refused if the service is to refuse it. */
function request(state: ServiceState, operation: string): void {
  state.requests++;
  if (state.throttle !== undefined) {
    const retryAfterMs = parseRetryAfter(state.throttle, Date.now());
    state.throttle = undefined;
    throw new SluiceError("throttled", `memory: ${operation}: slow down`, {
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    });
  }
  ensureWorking(state, operation);
  if (state.expired > 0 && --state.expired > 0)
    throw new SluiceError("unauthenticated", `memory: ${operation}: the credentials are refused`);
}

function ensureWorking(state: ServiceState, operation = "write"): void {
  if (!state.fails) return;
  state.fails = false;
  const cause = new Error(`503 of https://${host}/?key=${secret}`);
  throw new SluiceError("unavailable", `memory: ${operation}: the service is down`, { cause });
}

/** Makes an object; the answer to it may be lost, and its repetition finds what was made. */
async function commitOnce<T>(
  repeat: Repeat,
  state: ServiceState,
  commit: () => Promise<T>,
): Promise<T> {
  let made: Promise<T> | undefined;
  return repeat(async () => {
    ensureWorking(state);
    made ??= commit();
    const isLost = state.losesAnswer;
    state.losesAnswer = false;
    const info = await made;
    if (isLost) throw new SluiceError("unavailable", "memory: write: no answer came");
    return info;
  });
}

/** Looks at the next answer: whether it is the object, and of the version that is meant. */
function ensureEvidence(state: ServiceState): void {
  const { page, validator } = state;
  state.page = state.validator = undefined;
  if (page) throw new SluiceError("unavailable", "memory: open: a page came");
  if (validator) throw new SluiceError("precondition_failed", "memory: open: another version came");
}

function faultyBody(
  opened: OpenedObject,
  options: OpenOptions,
  state: ServiceState,
): OpenedObject & { readonly release: () => Promise<void> } {
  const { body: fault } = state;
  state.body = undefined;
  state.ignoresRange = false;
  state.handles++;
  const reader = opened.body.getReader();
  let sent = 0;
  let open = true;
  const release = async (reason?: unknown): Promise<void> => {
    if (!open) return;
    open = false;
    state.handles--;
    await reader.cancel(reason);
  };
  const body = createBody({
    async next() {
      if (fault && sent >= fault.at && fault.kind !== "overrun" && fault.kind !== "corrupt") {
        if (fault.kind === "truncate") return undefined;
        if (fault.kind === "stall") return new Promise<never>(() => {});
        throw new SluiceError("interrupted", "memory: open: the connection was reset");
      }
      const { value } = await reader.read();
      if (value === undefined && fault?.kind === "overrun") {
        const extra = new Uint8Array(fault.at);
        fault.at = 0;
        return extra.byteLength > 0 ? extra : undefined;
      }
      const wrong = fault?.kind === "corrupt" ? value?.[fault.at - sent] : undefined;
      if (value && fault && wrong !== undefined) value[fault.at - sent] = wrong ^ 1;
      sent += value?.byteLength ?? 0;
      state.bytes += value?.byteLength ?? 0;
      return value;
    },
    release,
    signal: options.signal,
  });
  const { info, range } = opened;
  return range === undefined ? { info, body, release } : { info, range, body, release };
}

/** A real file with the bytes of the object, for the `file` face. */
async function withFile(
  store: MemoryBackend,
  opened: OpenedObject,
  release: () => Promise<void>,
): Promise<OpenedObject> {
  const { info, range } = opened;
  const folder = mkdtempSync(join(tmpdir(), "sluice-reference-"));
  const path = join(folder, "bytes");
  const whole = await store.open(info.key);
  writeFileSync(path, Buffer.from(await new Response(whole.body).arrayBuffer()));
  const fd = openSync(path, "r");
  let open = true;
  return {
    ...opened,
    file: {
      fd,
      start: range?.start ?? 0,
      end: range?.end ?? info.size ?? 0,
      async verify() {
        if ((await store.describe(info.key)).etag !== info.etag)
          throw new SluiceError("precondition_failed", "memory: the object has changed");
      },
      async close() {
        if (!open) return;
        open = false;
        closeSync(fd);
        rmSync(folder, { recursive: true });
        await release();
      },
    },
  };
}

function signatureOf(fields: Readonly<Record<string, string>>): string {
  const entries = Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256")
    .update(secret + JSON.stringify(entries))
    .digest("hex");
}

/** A URL of the service that opens `path` as the signed fields say. */
export function sign(path: string, fields: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams({ ...fields, signature: signatureOf(fields) });
  return `https://${host}/${encodeURIComponent(path)}?${query.toString()}`;
}

/** The storage origin: responses to a presigned URL. */
async function answer(
  store: MemoryBackend,
  state: ServiceState,
  url: URL,
  init: RequestInit = {},
): Promise<Response> {
  const { signature, ...fields } = Object.fromEntries(url.searchParams);
  const path = decodeURIComponent(url.pathname.slice(1));
  const range = new Headers(init.headers).get("range");
  const refused =
    signature !== signatureOf(fields) ||
    (fields["key"] !== path && fields["key"] !== "*") ||
    Number(fields["expires"]) <= Date.now() + state.passedMs ||
    (range !== null && fields["signed-headers"] === "range");
  if (refused) return new Response("refused", { status: 403 });
  if ((init.method ?? "GET") !== "GET") return new Response("no", { status: 405 });
  const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(range ?? "") ?? [];
  try {
    const { body } = await store.open(
      path,
      start === undefined ? {} : { range: { start: Number(start), end: Number(end) + 1 } },
    );
    return new Response(body, {
      status: start === undefined ? 200 : 206,
      headers: {
        ...(fields["type"] && { "content-type": fields["type"] }),
        ...(fields["disposition"] && { "content-disposition": fields["disposition"] }),
      },
    });
  } catch {
    return new Response("missing", { status: 404 });
  }
}
