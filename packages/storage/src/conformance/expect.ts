import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { within } from "@sluice/core/internal";
import type { SluiceErrorCode } from "@sluice/core";
import { type LastCall, showFailure, withLastCall } from "./record-calls.ts";
import type { Fixture } from "./fixture.ts";
import type { ListOptions, ObjectInfo, OpenOptions, StorageBackend } from "../contract/backend.ts";

/** What "at once" may take on a busy machine. */
const promptMs = 5000;

export const oneMiB: number = 1024 * 1024;

/** Bytes that look random and are the same for the same seed, so that a shift of one shows. */
export function pattern(size: number, seed = 1): Uint8Array {
  const words = new Uint32Array(Math.ceil(size / 4));
  // small integers all the way: three times as fast
  let state = (seed * 2654435761 + 1) | 0;
  for (let i = 0; i < words.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    // the low bits of this generator repeat soon
    words[i] = state ^ (state >>> 16);
  }
  return new Uint8Array(words.buffer, 0, size);
}

/** Members of an object's metadata that a store may declare absent. */
const traitOf = {
  size: "withoutSize",
  etag: "withoutEtag",
  contentEncoding: "withoutCoding",
} as const;

/** Breaks the rule if the metadata of `call` lacks a member, and names the trait that declares it absent. */
export function expectMember(info: ObjectInfo, member: keyof typeof traitOf, call: string): void {
  const way = `if the backend cannot have one, declare traits: { ${traitOf[member]}: true }`;
  assert.ok(info[member] !== undefined, `${call} has no ${member}; ${way}`);
}

export function text(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

export async function readBody(body: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The final result of a reader: all the bytes, or `undefined` when the body failed as it may. */
export async function readOn(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  first: Uint8Array,
): Promise<Uint8Array | undefined> {
  const chunks = [first];
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read())
      chunks.push(read.value);
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks);
}

export async function readKey(
  backend: StorageBackend,
  key: string,
  options?: OpenOptions,
): Promise<Uint8Array> {
  return readBody((await backend.open(key, options)).body);
}

/** Fails with a short message: a difference of megabytes helps no reader. */
export function assertBytes(actual: Uint8Array, expected: Uint8Array, what = "the bytes"): void {
  if (Buffer.compare(actual, expected) === 0) return;
  const at = actual.findIndex((byte, index) => byte !== expected[index]);
  assert.fail(
    `${what}: ${actual.byteLength} of ${expected.byteLength} bytes, ` +
      (at < 0 ? "all equal as far as they go" : `different from byte ${at} on`),
  );
}

/** The error of the work; fails when it resolves. */
export async function rejection(work: () => Promise<unknown>): Promise<unknown> {
  return (await failureOf(work, "a rejection")).error;
}

/** The work must reject with one of these codes. Whether it is a proper error is a separate rule. */
export async function expectCode(
  work: () => Promise<unknown>,
  ...codes: readonly SluiceErrorCode[]
): Promise<Record<string, unknown>> {
  const due = codes.join(" or ");
  const { call, error } = await failureOf(work, due);
  const { code } = Object(error) as { code?: SluiceErrorCode };
  if (code === undefined || !codes.includes(code))
    assert.fail(`${call} rejected with ${showFailure(error)} where ${due} is due`);
  return error as Record<string, unknown>;
}

/** The work must reject with this very object. */
export async function expectReason(work: () => Promise<unknown>, reason: unknown): Promise<void> {
  const { call, error } = await failureOf(work, "the signal's reason");
  if (error !== reason)
    assert.fail(`${call} rejected with ${String(error)}, not with the signal's reason`);
}

/** How the work fails and its last call; an assertion in it fails the rule. */
async function failureOf(
  work: () => Promise<unknown>,
  due: string,
): Promise<{ readonly call: string; readonly error: unknown }> {
  const last: LastCall = {};
  try {
    await withLastCall(last, work);
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    return { call: last.text ?? "it", error };
  }
  return assert.fail(`${last.text ?? "it"} resolved where ${due} is due`);
}

/** The value, which must come at once. */
export function promptly<T>(work: Promise<T>, what: string): Promise<T> {
  const message = `${what}: nothing came within ${promptMs} ms`;
  return within(work, {
    timeoutMs: promptMs,
    expired: () => new assert.AssertionError({ message }),
  });
}

/** No more handles may stay open than before. They close a moment after the promise that ends them, not much later. */
export async function expectHandles(
  count: () => number | Promise<number>,
  before: number,
): Promise<void> {
  let now = await count();
  for (let tries = 0; now > before && tries < 50; tries++) {
    await wait(10);
    now = await count();
  }
  assert.ok(now <= before, `${now - before} handles are still open`);
}

/** Every object of a walk through all pages. */
export async function listAll(
  backend: StorageBackend,
  options: ListOptions = {},
): Promise<ObjectInfo[]> {
  const objects: ObjectInfo[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < 10_000; page++) {
    const { objects: more, cursor: next } = await backend.list(
      cursor === undefined ? options : { ...options, cursor },
    );
    objects.push(...more);
    if (next === undefined) return objects;
    cursor = next;
  }
  return assert.fail("the walk through the pages does not end");
}

/** Facts that two responses give of one object do not contradict each other; one of them may lack some. */
export function assertFacts(actual: ObjectInfo, expected: ObjectInfo, where: string): void {
  for (const fact of ["size", "etag", "digests"] as const)
    if (actual[fact] !== undefined && expected[fact] !== undefined)
      assert.deepEqual(actual[fact], expected[fact], `the ${fact} that ${where} gives`);
  const times = [actual.lastModified, expected.lastModified].map((time) => time?.getTime());
  const [time, due] = times;
  // HTTP gives whole seconds
  if (time !== undefined && due !== undefined)
    assert.ok(Math.abs(time - due) < 1000, `the lastModified that ${where} gives`);
}

export async function listKeys(backend: StorageBackend, options?: ListOptions): Promise<string[]> {
  return (await listAll(backend, options)).map(({ key }) => key).toSorted();
}

export async function expectInvisible({ backend }: Fixture, key: string): Promise<void> {
  await expectCode(() => backend.describe(key), "not_found");
  await expectCode(() => backend.open(key), "not_found");
  assert.deepEqual(await listKeys(backend), [], "it is listed");
}

export async function expectNothingLeft({ countLeftovers }: Fixture): Promise<void> {
  assert.equal((await countLeftovers?.()) ?? 0, 0, "temporary files or parts are left");
}
