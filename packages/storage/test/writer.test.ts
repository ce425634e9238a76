import { EventEmitter, once } from "node:events";
import { SluiceError } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import {
  createStepWriter,
  createWriter,
  type WriteDriver,
  type WriterOptions,
} from "@sluice/storage/plugin";
import { expect, test } from "vitest";

const info: ObjectInfo = { key: "a", size: 3 };
const chunk = new Uint8Array([1, 2, 3]);

/** A writer over a driver that records its calls; `steps` replaces some of them. */
function scripted(steps: Partial<WriteDriver> = {}, options: Partial<WriterOptions> = {}) {
  const calls: string[] = [];
  let ended: AbortSignal | undefined;
  const driver: WriteDriver = {
    append: async () => {},
    publish: async () => info,
    release: async () => {},
    ...steps,
  };
  const open = (signal: AbortSignal): WriteDriver => {
    ended = signal;
    return {
      append: (bytes) => (calls.push("append"), driver.append(bytes)),
      publish: (written) => (calls.push(`publish ${written}`), driver.publish(written)),
      release: () => (calls.push("release"), driver.release()),
    };
  };
  const writer = createWriter(open, { operation: 'test: write "a"', ...options });
  return { writer, calls, isEnded: () => ended?.aborted };
}

/** A step that settles when the test says so. */
function pending() {
  const caller = new EventEmitter();
  const settled = once(caller, "resolve");
  return {
    promise: (async () => void (await settled))(),
    resolve: () => void caller.emit("resolve"),
    reject: (error: Error) => void caller.emit("error", error),
  };
}

test("a commit publishes the appended bytes, then releases once, even when abort follows", async () => {
  const { writer, calls, isEnded } = scripted();
  await writer.write(chunk);
  expect(await writer.commit()).toBe(info);
  expect(isEnded()).toBe(false);
  await writer.abort();
  await writer[Symbol.asyncDispose]();
  expect(calls).toEqual(["append", "publish 3", "release"]);
  await expect(writer.write(chunk)).rejects.toThrow(TypeError);
  await expect(writer.commit()).rejects.toThrow(TypeError);
});

test("a failed release changes no result: the object is made, and the bytes of a step are kept", async () => {
  const release = (): Promise<void> => Promise.reject(new Error("EIO"));
  const { writer } = scripted({ release });
  await writer.write(chunk);
  expect(await writer.commit()).toBe(info);
  const end = { offset: 3, rest: new Uint8Array() };
  const openStep = () => ({
    append: async () => {},
    keep: async () => end,
    publish: async () => info,
    discard: async () => {},
    release,
  });
  const step = () => createStepWriter(openStep, { operation: "test: steps", id: "1", offset: 0 });
  expect(await step().suspend()).toBe(end);
  expect(await step().commit()).toBe(info);
});

test("another number of bytes than declared publishes nothing", async () => {
  for (const size of [2, 4]) {
    const { writer, calls, isEnded } = scripted({}, { size });
    const writing = writer.write(chunk).then(() => writer.commit());
    await expect(writing).rejects.toMatchObject({ code: "invalid_argument" });
    expect(calls.at(-1)).toBe("release");
    expect(calls.join()).not.toContain("publish");
    expect(isEnded()).toBe(true);
  }
});

test.each(["append", "publish"] as const)(
  "an error of %s is mapped and thrown once everything is released",
  async (step) => {
    const releasing = pending();
    const fault = new Error("fault");
    const { writer, calls } = scripted(
      { [step]: () => Promise.reject(fault), release: () => releasing.promise },
      { toError: (cause, operation) => new SluiceError("unavailable", operation, { cause }) },
    );
    let isTold = false;
    const writing = writer.write(chunk).then(() => writer.commit());
    const told = writing.catch((error: unknown) => {
      isTold = true;
      return error;
    });
    await expect.poll(() => calls.at(-1)).toBe("release");
    expect(isTold).toBe(false);
    releasing.resolve();
    expect(await told).toMatchObject({
      code: "unavailable",
      message: 'test: write "a"',
      cause: fault,
    });
    await expect(writer.commit()).rejects.toThrow(TypeError);
  },
);

test("an abort of the signal rejects before the release ends, and abort waits for it", async () => {
  const releasing = pending();
  const appending = pending();
  const caller = new AbortController();
  const reason = new Error("the caller's reason");
  const { writer, calls, isEnded } = scripted(
    { append: () => appending.promise, release: () => releasing.promise },
    { signal: caller.signal },
  );
  const writing = writer.write(chunk);
  caller.abort(reason);
  expect(isEnded()).toBe(true);
  // nothing is released under a step in progress
  await Promise.resolve();
  expect(calls).toEqual(["append"]);
  appending.reject(new Error("cut off"));
  await expect(writing).rejects.toBe(reason);
  await expect(writer.write(chunk)).rejects.toBe(reason);
  let isOver = false;
  const aborting = writer.abort().then(() => (isOver = true));
  await Promise.resolve();
  expect(isOver).toBe(false);
  releasing.resolve();
  await aborting;
  expect(calls).toEqual(["append", "release"]);
});

test("an abort without a call in progress releases by itself", async () => {
  const caller = new AbortController();
  const { calls } = scripted({}, { signal: caller.signal });
  caller.abort();
  await expect.poll(() => calls).toEqual(["release"]);
  const late = scripted({}, { signal: caller.signal });
  await expect.poll(() => late.calls).toEqual(["release"]);
});

test("abort ends a write in progress with its reason, and waits for a commit in progress", async () => {
  const appending = pending();
  const reason = new Error("enough");
  const first = scripted({ append: () => appending.promise });
  const writing = first.writer.write(chunk);
  const aborting = first.writer.abort(reason);
  appending.resolve();
  await expect(writing).rejects.toBe(reason);
  await aborting;
  await expect(first.writer.commit()).rejects.toThrow(TypeError);

  const publishing = pending();
  const second = scripted({ publish: () => publishing.promise.then(() => info) });
  const committing = second.writer.commit();
  const late = second.writer.abort(reason);
  publishing.resolve();
  expect(await committing).toBe(info);
  await late;
  expect(second.calls).toEqual(["publish 0", "release"]);
});
