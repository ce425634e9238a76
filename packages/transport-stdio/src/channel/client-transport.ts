import { spawn, type ChildProcess, type IOType } from "node:child_process";
import type { Readable, Stream, Writable } from "node:stream";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { Outlet } from "@sluice/binary-transfer/client";
import { SluiceError } from "@sluice/core";
import { isInTime } from "@sluice/core/internal";
import { StdioChannel, type StdioLimits } from "./stdio-channel.ts";

/** Options of {@link createStdioClientTransport}. */
export interface StdioClientTransportOptions extends StdioLimits {
  /** The program that is the server. No shell is involved. */
  readonly command: string;
  readonly args?: readonly string[];
  /** Its environment, beside the few variables that it needs to run at all. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Where its stderr goes, as of `child_process.spawn`. Default `"inherit"`. */
  readonly stderr?: IOType | Stream | number;
  /** Milliseconds that it has to end by itself, and again after SIGTERM. Default 2,000. */
  readonly exitMs?: number;
}

/** The client's end: a server as a child process, for the clients of both SDK versions. */
export class StdioClientTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport["onmessage"]>;
  readonly #options: StdioClientTransportOptions;
  #child: ChildProcess | undefined;
  #exited: Promise<void> | undefined;
  #channel: StdioChannel | undefined;

  constructor(options: StdioClientTransportOptions) {
    this.#options = options;
  }

  /** Process id of the server while it runs. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Its stderr, with the option `stderr: "pipe"`, once started. */
  get stderr(): Readable | undefined {
    return this.#child?.stderr ?? undefined;
  }

  /** Where bytes go beside messages to the server; `undefined` when it takes none. */
  get outlet(): Outlet | undefined {
    return this.#channel?.outlet;
  }

  /** Starts the server. Rejects with `unavailable` when there is no such program. */
  async start(): Promise<void> {
    if (this.#exited) throw new TypeError("stdio: the transport was started already");
    const { command, args = [], env, cwd, stderr = "inherit", ...rest } = this.#options;
    const child = spawn(command, args, {
      env: { ...inheritedEnvironment(), ...env },
      stdio: ["pipe", "pipe", stderr],
      windowsHide: true,
      cwd,
    });
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once("close", () => {
        this.#child = undefined;
        // its last bytes were read before this
        this.#channel?.close();
        resolve();
      });
    });
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.on("error", (error) => {
        const fault = new SluiceError("unavailable", `stdio: cannot run ${command}`, {
          cause: error,
        });
        reject(fault);
        this.onerror?.(fault);
      });
    });
    const { exitMs: _exitMs, ...limits } = rest;
    this.#channel = new StdioChannel(
      "client",
      { input: child.stdout!, output: child.stdin! },
      {
        message: (message) => this.onmessage?.(message as JSONRPCMessage),
        fault: (error) => this.onerror?.(error),
        closed: (error) => {
          if (error) this.onerror?.(error);
          this.onclose?.();
          void this.#end();
        },
      },
      limits,
    );
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (!this.#channel) throw new SluiceError("interrupted", "stdio: send: not started");
    await this.#channel.send(message);
  }

  /** Ends transfers in progress and the server: by closing its stdin, then by SIGTERM, then by SIGKILL. */
  async close(): Promise<void> {
    this.#channel?.close();
    await this.#end();
  }

  async #end(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    const { stdin, stdout, stderr } = child as ChildProcess & { stdin: Writable; stdout: Readable };
    // it may be stuck in a write that is not read
    stdout.on("error", () => {}).resume();
    stdin.on("error", () => {}).end();
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      if (await this.#exitsInTime()) return;
      child.kill(signal);
    }
    if (await this.#exitsInTime()) return;
    // a program that it started may hold the pipes, which would keep this process from ending
    stdout.destroy();
    stderr?.destroy();
    await this.#exitsInTime();
  }

  #exitsInTime(): Promise<boolean> {
    const { exitMs = 2_000 } = this.#options;
    return isInTime(this.#exited!, exitMs);
  }
}

/** The variables that a program needs to run; the rest, with its secrets, stays here. As the SDKs have it. */
const inheritedNames =
  process.platform === "win32"
    ? [
        "APPDATA",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
      ]
    : ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/** Variables of this process that every child gets. */
function inheritedEnvironment(): Record<string, string> {
  return Object.fromEntries(
    inheritedNames.flatMap((name) => {
      const value = process.env[name];
      // functions of a shell are code
      return value === undefined || value.startsWith("()") ? [] : [[name, value]];
    }),
  );
}
