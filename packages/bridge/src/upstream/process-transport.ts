import { once } from "node:events";
import type { ChildProcess } from "node:child_process";
import { basename } from "node:path";
import spawn from "cross-spawn";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { isInTime } from "@sluice/core/internal";
import { maxResponseContainers } from "../spool/scan/string-scanner.ts";
import { refusal } from "../messages/messages.ts";
import type { UnreadText } from "../messages/read-message.ts";
import { linesOf, LineWriter, readLine, unreadableAnswer } from "./line-transport.ts";
import { smallerAdvice } from "../messages/limits.ts";
import type { Flow, ServerTransport, Upstream } from "./upstream.ts";

/** Options of a server that runs as a child process. */
export interface ProcessOptions {
  /** Program to run, found as a shell finds it. */
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  /** Folder to run it in. Default: the one of this process. */
  readonly cwd?: string | undefined;
  /** Its environment. Default: that of this process. */
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** Largest message to take from it, in bytes. Default: 32 MiB. */
  readonly maxMessageBytes?: number | undefined;
  /** How long it may take to end after its input has ended, and again after SIGTERM. Default: 0.75 s. */
  readonly exitMs?: number | undefined;
  /** Wraps its output, as the spool does. */
  readonly wrapOutput?:
    | ((output: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>)
    | undefined;
}

const defaultMaxMessageBytes = 32 * 2 ** 20;
/** Twice this is less than the 2 s after which hosts kill a bridge, or begin to. */
const defaultExitMs = 750;

const exitSeenMs = 250;

/** Speaks lines of JSON with a child process, which it starts and ends. */
class ProcessTransport implements ServerTransport {
  onmessage?: ServerTransport["onmessage"];
  onerror?: ServerTransport["onerror"];
  onclose?: ServerTransport["onclose"];
  endReason: string | undefined;
  readonly #options: ProcessOptions;
  readonly #flow: Flow;
  #child: ChildProcess | undefined;
  #input: LineWriter | undefined;
  #exited: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(options: ProcessOptions, flow: Flow) {
    this.#options = options;
    this.#flow = flow;
  }

  /** Starts the process. Throws `not_found` when there is no such program. */
  async start(): Promise<void> {
    const { command, args = [], cwd, env = process.env } = this.#options;
    const child = spawn(command, [...args], {
      cwd,
      env,
      stdio: ["pipe", "pipe", "inherit"],
      windowsHide: true,
      // a group of its own: what the program started ends with it
      detached: process.platform !== "win32",
    });
    this.#child = child;
    this.#input = child.stdin ? new LineWriter(child.stdin) : undefined;
    if (child.pid !== undefined) killAtExit(child);
    this.#exited = new Promise<void>((resolve) =>
      child.once("exit", (code, signal) => {
        this.endReason =
          code === null ? `it was ended by ${signal}` : `it exited with code ${code}`;
        resolve();
      }),
    );
    child.stdin?.on("error", (error) => this.onerror?.(error));
    try {
      await once(child, "spawn");
    } catch (error) {
      throw new SluiceError("not_found", `bridge: cannot run ${command}: is it installed?`, {
        cause: error,
      });
    }
    child.on("error", (error) => this.onerror?.(error));
    void this.#read(child).then(() => this.#ended());
  }

  async #read(child: ChildProcess): Promise<void> {
    if (!child.stdout) return;
    const { maxMessageBytes = defaultMaxMessageBytes } = this.#options;
    const output = this.#options.wrapOutput?.(child.stdout) ?? child.stdout;
    const lines = linesOf(output, maxMessageBytes);
    const advice = smallerAdvice(this.#options.wrapOutput !== undefined);
    try {
      for await (const line of lines) {
        await this.#flow.ready();
        const read = readLine(line, maxMessageBytes, {
          maxContainers: maxResponseContainers,
          advice,
        });
        if (read?.message) this.onmessage?.(read.message);
        else if (read) this.#refuse(read);
      }
    } catch (error) {
      if (!this.#isClosed) this.onerror?.(error as Error);
    }
  }

  /** Answers what calls in it wait for. A line without any may be one of a log. */
  #refuse({ fault: { code, message }, requests, responses, others }: UnreadText): void {
    for (const id of [...responses, ...others]) this.onmessage?.(unreadableAnswer(id, message));
    for (const id of requests) void this.send(refusal(id, code, message)).catch(() => {});
    this.onerror?.(new SluiceError("protocol", `bridge: ${message}`));
  }

  /** The next process starts once this one is gone: it may need the same port or lock. */
  async #ended(): Promise<void> {
    const wasClosed = this.#isClosed;
    await this.close();
    if (!wasClosed) this.onclose?.();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (!this.#input || this.#isClosed) throw this.#gone();
    try {
      await this.#input.write(message);
    } catch (error) {
      // a pipe breaks before its process is seen to end
      await isInTime(this.#exited, exitSeenMs);
      throw this.endReason === undefined ? error : this.#gone();
    }
  }

  #gone(): SluiceError {
    return new SluiceError("unavailable", `bridge: ${this.endReason ?? "the server has ended"}`);
  }

  /** Ends the process: end of input, then SIGTERM, then SIGKILL to it and what it started. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const child = this.#child;
    if (!child?.pid) return;
    const { exitMs = defaultExitMs } = this.#options;
    child.stdin?.end();
    if (!(await isInTime(this.#exited, exitMs))) {
      kill(child, "SIGTERM");
      await isInTime(this.#exited, exitMs);
    }
    // also what outlived its parent
    kill(child, "SIGKILL");
    await isInTime(this.#exited, defaultExitMs);
    child.stdout?.destroy();
  }
}

const running = new Set<ChildProcess>();

function killRunning(): void {
  for (const child of running) kill(child, "SIGKILL");
}

/** A process that ends at once, as by a second signal, leaves nothing behind. One listener does for all sessions. */
function killAtExit(child: ChildProcess): void {
  if (running.size === 0) process.on("exit", killRunning);
  running.add(child);
  child.once("exit", () => {
    running.delete(child);
    if (running.size === 0) process.off("exit", killRunning);
  });
}

function kill(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (process.platform === "win32" || child.pid === undefined) child.kill(signal);
    else process.kill(-child.pid, signal);
  } catch {
    // it has ended
  }
}

/** A server that is a program on this machine and speaks over its standard input and output. */
export function createProcessUpstream(options: ProcessOptions): Upstream {
  return {
    name: basename(options.command),
    kind: "process",
    open: (flow) => new ProcessTransport(options, flow),
  };
}
