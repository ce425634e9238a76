import { spawn } from "node:child_process";
import { once } from "node:events";
import { inject } from "vitest";

/** An upload endpoint in a process of its own. */
export interface ServedInProcess {
  /** Two slots that authenticate themselves. */
  readonly urls: readonly string[];
  /** Where a URL of an earlier process is now. */
  now(url: string): string;
  /** Bytes resident now. */
  rss(): Promise<number>;
  kill(): Promise<void>;
}

/** Starts one over a folder; with "parts" its storage writes nothing in steps. */
export async function serveInProcess(
  root: string,
  key: string,
  kind = "steps",
): Promise<ServedInProcess> {
  const program = inject("programs")["packages/uploads/test/serving-process.ts"]!;
  // garbage does not count as memory that is held
  const args = ["--max-semi-space-size=4", program, root, key, kind];
  const child = spawn(process.execPath, args, {
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  const ended = once(child, "exit").then(([code, signal]) => {
    throw new Error(`the server ended with ${String(code ?? signal)}`);
  });
  // most end when they are killed, and nothing waits for them then
  ended.catch(() => {});
  const [line] = (await Promise.race([
    once(child.stdout as NodeJS.ReadableStream, "data"),
    ended,
  ])) as [Buffer];
  const { port, urls } = JSON.parse(line.toString()) as { port: number; urls: string[] };
  const now = (url: string): string => url.replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${port}`);
  return {
    urls,
    now,
    async rss() {
      child.send("rss");
      const [bytes] = (await Promise.race([once(child, "message"), ended])) as [number];
      return bytes;
    },
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}
