import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { Provided } from "../src/provide/provider.ts";
import { backendOf, createLate, receive, receiveText } from "./provide-fixture.ts";

let folder = "";
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "provide-process-"))));
afterAll(() => rm(folder, { recursive: true }));
afterEach(() => void vi.useRealTimers());

const children: ChildProcess[] = [];

function shell(script: string): ChildProcess {
  const child = spawn("sh", ["-c", script], { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  return child;
}

/** Every process that a test started must be gone. */
async function expectGone(): Promise<void> {
  const pids = children.splice(0).map(({ pid }) => pid!);
  await expect.poll(() => pids.filter(isRunning)).toEqual([]);
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null) await once(child, "exit");
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe("a child process", () => {
  test("gives its stdout", async () => {
    const content = Buffer.alloc(3_000_000, "0123456789\n");
    const path = join(folder, "content.bin");
    await writeFile(path, content);
    const { bytes, error } = await receive(backendOf(() => spawn("cat", [path])));
    expect(error).toBeUndefined();
    expect(Buffer.compare(bytes, content)).toBe(0);
  });

  test("loses nothing if it ends before it is read", async () => {
    const open = (): ChildProcess => shell("printf done");
    const { body } = await backendOf(open).open("file");
    await ended(children[0]!);
    expect(await new Response(body).text()).toBe("done");
  });

  test("is an error if it ended before it was given: Node has dropped its bytes", async () => {
    const open = async (): Promise<Provided> => {
      const child = shell("printf done");
      await ended(child);
      return child;
    };
    await expect(backendOf(open).open("file")).rejects.toThrow("give it at once");
  });

  test("gives its bytes if it had a reader when it ended, and its code counts", async () => {
    const open = (script: string) => async (): Promise<Provided> => {
      const child = shell(script);
      child.stdout!.on("readable", () => {});
      await ended(child);
      return child;
    };
    expect(await receiveText(open("printf done"))).toBe("done");
    const { error } = await receive(backendOf(open("printf done; exit 3")));
    expect(error).toMatchObject({ code: "internal" });
  });

  test("is an error if it ends with another code than 0, with its last words as the cause", async () => {
    const script = "printf half; echo not good >&2; exit 3";
    const { bytes, error } = await receive(backendOf(() => shell(script)));
    expect(error).toMatchObject({ code: "internal", cause: "not good\n" });
    expect(String(error)).toContain("ended with code 3");
    expect(bytes.byteLength).toBeLessThanOrEqual(4);
    // a size that it reaches does not make it whole
    const told = backendOf({ open: () => shell(script), describe: () => ({ size: 4 }) });
    expect(await receive(told)).toMatchObject({
      bytes: Buffer.from(""),
      error: { code: "internal" },
    });
    // the twin that looks at the stream alone takes the half for the whole
    expect(await receiveText(() => shell(script).stdout!)).toBe("half");
    await expectGone();
  });

  test("is an error if a signal ends it", async () => {
    const { error } = await receive(backendOf(() => shell("printf half; kill -KILL $$")));
    expect(error).toMatchObject({ code: "interrupted" });
    expect(String(error)).toContain("SIGKILL");
    await expectGone();
  });

  test("is an error if it does not exist, at once or later", async () => {
    for (const open of [
      () => spawn("/no/such/command"),
      async () => spawn("/no/such/command"),
      async () => spawn("sh", [], { cwd: "/no/such/folder" }),
    ]) {
      const { bytes, error } = await receive(backendOf(open));
      expect(error).toMatchObject({ code: "internal", cause: { code: "ENOENT" } });
      expect(bytes.byteLength).toBe(0);
    }
  });

  test("is not held up by 1 MiB on stderr, and the end of that is kept", async () => {
    const noisy = "head -c 1048576 /dev/zero | tr '\\0' x >&2; printf end >&2; printf bytes";
    expect(await receiveText(() => shell(noisy))).toBe("bytes");
    const { error } = await receive(backendOf(() => shell(`${noisy}; exit 1`)));
    const { cause } = error as { cause: string };
    expect(cause).toHaveLength(4_096);
    expect(cause.endsWith("xxxend")).toBe(true);
    await expectGone();
  });

  test("times out if it closes stdout and continues, and is ended", async () => {
    const backend = backendOf({
      open: () => shell("printf bytes; exec >&-; exec sleep 60"),
      idleMs: 200,
    });
    expect((await receive(backend)).error).toMatchObject({ code: "timeout" });
    await expectGone();
  });

  test("is ended when the client goes away, unread or in the middle", async () => {
    for (const reads of [0, 1]) {
      const caller = new AbortController();
      const reason = new Error("gone");
      const backend = backendOf(() => shell("exec yes"));
      const { body } = await backend.open("file", { signal: caller.signal });
      const reader = body.getReader();
      if (reads > 0) await reader.read();
      caller.abort(reason);
      await expect(reader.read()).rejects.toBe(reason);
      await expectGone();
      await (await backend.open("file")).body.cancel();
      await expectGone();
    }
  });

  test("is ended even if it listens to the signal itself", async () => {
    const backend = backendOf(({ signal }) => {
      const child = spawn("yes", { signal });
      children.push(child);
      return child;
    });
    const reader = (await backend.open("file")).body.getReader();
    await reader.read();
    await reader.cancel();
    await expectGone();
  });

  test("gets SIGKILL after 5 s if it ignores SIGTERM", async () => {
    const backend = backendOf(({ signal }) => {
      const child = spawn(
        "sh",
        ["-c", "trap '' TERM PIPE; echo ready; while :; do sleep 1; done"],
        {
          signal,
        },
      );
      children.push(child);
      return child;
    });
    const reader = (await backend.open("file")).body.getReader();
    // before that it may not have its trap
    await reader.read();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    await reader.cancel();
    const [child] = children;
    await vi.advanceTimersByTimeAsync(4_999);
    expect(child?.signalCode).toBeNull();
    await vi.advanceTimersByTimeAsync(1);
    vi.useRealTimers();
    await expect.poll(() => child?.signalCode).toBe("SIGKILL");
    await expectGone();
  });

  test("is ended if it is given too late", async () => {
    const { late, give } = createLate<Provided>();
    const backend = backendOf({ open: () => late, idleMs: 20 });
    await expect(backend.open("file")).rejects.toMatchObject({ code: "timeout" });
    give(shell("exec yes"));
    await expectGone();
  });

  test("without a stdout of bytes is a TypeError, and is ended", async () => {
    for (const child of [
      () => spawn("yes", { stdio: "ignore" }),
      () => execFile("yes", { maxBuffer: Infinity }),
      () => {
        const read = spawn("yes");
        read.stdout.resume();
        return read;
      },
    ]) {
      const opening = backendOf(() => {
        const started = child();
        children.push(started);
        return started;
      }).open("file");
      await expect(opening).rejects.toThrow(TypeError);
      await expect(opening).rejects.toThrow("made://here/file");
      await expectGone();
    }
  });
});
