import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { dirname, join } from "node:path";
import { inject, onTestFinished } from "vitest";
import type { AtEnd } from "./bridged.ts";
import { makeFolders, type Folders } from "./filing.ts";

/** `sluice bridge` as a process, in folders where nothing else writes. */
export interface RunningBridge {
  readonly folders: Folders;
  /** What the host gets for a call: text, and whether it is an error. Never longer than 4 KiB. */
  call(name: string, args: object): Promise<{ readonly text: string; readonly isError: boolean }>;
  /** Begins a call and takes it back after `afterMs`. */
  cancelled(name: string, args: object, afterMs: number): Promise<void>;
  /** Bytes of resident memory above what the process had at `settle`; undefined without /proc. */
  grownBytes(): number | undefined;
  /** Removes the files that were saved, and counts the growth of memory from now on. */
  settle(): void;
  /** Files below the folder to save to, with `/`, but for large results. */
  saved(): string[];
  /** Files elsewhere that were not there before, or are other ones now. */
  strayFiles(): string[];
}

const main = inject("programs")["packages/cli/src/main.ts"]!;

/** Starts a bridge in front of `url`. The user has a file outside of the folder, and one that is a link's target. */
export async function startBridge(
  url: URL,
  options: readonly string[],
  atEnd: AtEnd = onTestFinished,
): Promise<RunningBridge> {
  const folders = makeFolders(atEnd);
  const { save, outside } = folders;
  const root = dirname(save);
  const home = join(root, "home");
  mkdirSync(home);
  for (const path of [join(outside, "mine.txt"), join(home, ".bashrc")])
    writeFileSync(path, "mine");
  const before = filesBelow(root);
  const child = spawn(
    process.execPath,
    [main, "bridge", url.href, "--no-browser", "--save-to", save, ...options],
    {
      cwd: home,
      env: { PATH: process.env["PATH"], HOME: home, XDG_STATE_HOME: join(root, "state") },
      stdio: ["pipe", "pipe", "ignore"],
    },
  );
  atEnd(() => void child.kill("SIGKILL"));
  const host = hostOf(child);
  await host.ask("initialize", {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "host", version: "1" },
  });
  let idle = memoryOf(child, "VmRSS");

  return {
    folders,
    async call(name, args) {
      const { response, length } = await host.ask("tools/call", { name, arguments: args });
      if (length > 4_096) throw new Error(`the host got ${length} bytes`);
      const { result, error } = response;
      if (error) return { text: error.message, isError: true };
      const content = result?.content ?? [];
      return {
        text: content.map(({ text = "" }) => text).join("\n"),
        isError: result?.isError === true,
      };
    },
    async cancelled(name, args, afterMs) {
      const id = host.send("tools/call", { name, arguments: args });
      await new Promise((resolve) => setTimeout(resolve, afterMs));
      host.notify("notifications/cancelled", { requestId: id });
    },
    grownBytes() {
      const peak = memoryOf(child, "VmHWM");
      return peak === undefined || idle === undefined ? undefined : peak - idle;
    },
    settle() {
      for (const name of readdirSync(save))
        if (name !== "spooled") rmSync(join(save, name), { recursive: true });
      // resets the peak of a process (proc_pid_clear_refs(5))
      const peaks = `/proc/${child.pid}/clear_refs`;
      if (existsSync(peaks)) writeFileSync(peaks, "5");
      idle = memoryOf(child, "VmRSS");
    },
    saved: () =>
      [...filesBelow(save).keys()].filter((path) => !path.startsWith("spooled/")).toSorted(compare),
    strayFiles() {
      const now = [...filesBelow(root)].filter(([path]) => !/^(?:save|state)\//.test(path));
      return now.filter(([path, text]) => before.get(path) !== text).map(([path]) => path);
    },
  };
}

function compare(a: string, b: string): number {
  return a < b ? -1 : 1;
}

/** Texts of all files, by path with `/`. Links are not followed, as Node 24 does where it lists by itself. */
function filesBelow(folder: string): Map<string, string> {
  const files = new Map<string, string>();
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory())
      for (const [below, text] of filesBelow(path)) files.set(`${entry.name}/${below}`, text);
    else if (entry.isFile())
      files.set(entry.name, readFileSync(path).subarray(0, 1_000).toString("latin1"));
  }
  return files;
}

interface HostResponse {
  readonly id?: unknown;
  readonly result?: {
    readonly content?: readonly { readonly text?: string }[];
    readonly isError?: boolean;
  };
  readonly error?: { readonly message: string };
}

/** The host's end in plain lines: what an SDK would refuse is seen, too. */
function hostOf(child: ChildProcess) {
  const waiting = new Map<number, (given: { response: HostResponse; length: number }) => void>();
  let count = 0;
  createInterface({ input: child.stdout! }).on("line", (line) => {
    const response = JSON.parse(line) as HostResponse;
    waiting.get(Number(response.id))?.({ response, length: line.length });
  });
  const write = (message: object): void =>
    void child.stdin!.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const send = (method: string, params: object): number => {
    write({ id: ++count, method, params });
    return count;
  };
  return {
    send,
    notify: (method: string, params: object) => write({ method, params }),
    async ask(method: string, params: object) {
      const given = new Promise<{ response: HostResponse; length: number }>((resolve) =>
        waiting.set(send(method, params), resolve),
      );
      const ended = once(child, "exit").then(() => {
        throw new Error("the bridge ended");
      });
      return Promise.race([given, ended]);
    },
  };
}

function memoryOf({ pid }: ChildProcess, field: "VmRSS" | "VmHWM"): number | undefined {
  const path = `/proc/${pid}/status`;
  if (!existsSync(path)) return undefined;
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(path, "utf8"))?.[1]) * 1_024;
}
