import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

/** How a program is started. */
export interface ChildOptions {
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** A line that it says when it is ready, on either of its outputs. */
  readonly ready: RegExp;
  readonly timeoutMs?: number;
}

/** A program that runs until it is stopped. */
export interface Child {
  readonly process: ChildProcess;
  /** The line that said that it is ready. */
  readonly ready: RegExpMatchArray;
  /** Ends it and waits until it is gone; with SIGKILL when it takes longer than `patienceMs`. Default 5,000. */
  stop(patienceMs?: number): Promise<void>;
}

/** Starts a program and waits until it is ready. Rejects with the last that it said when it is not. */
export async function startChild(command: string, options: ChildOptions): Promise<Child> {
  const { args, ready, timeoutMs = 30_000 } = options;
  const child = spawn(command, args, {
    stdio: ["ignore", "pipe", "pipe"],
    ...(options.env && { env: options.env }),
  });
  const gone = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  async function stop(patienceMs = 5_000): Promise<void> {
    child.kill("SIGTERM");
    const force = setTimeout(() => child.kill("SIGKILL"), patienceMs);
    await gone;
    clearTimeout(force);
  }

  const said: string[] = [];
  try {
    const found = await new Promise<RegExpMatchArray>((resolve, reject) => {
      const fail = (what: string): void =>
        reject(new Error(`${command} ${what}${said.map((line) => `\n  ${line}`).join("")}`));
      const timer = setTimeout(() => fail("did not become ready"), timeoutMs);
      child.once("error", () => reject(new Error(`there is no ${command} to start`)));
      for (const output of [child.stdout, child.stderr])
        createInterface({ input: output }).on("line", (line) => {
          said.push(line);
          if (said.length > 5) said.shift();
          const match = ready.exec(line);
          if (!match) return;
          clearTimeout(timer);
          resolve(match);
        });
      // only now everything that it said has been read
      child.once("close", () => {
        clearTimeout(timer);
        fail("ended before it was ready");
      });
    });
    return { process: child, ready: found, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
