import { spawn } from "node:child_process";
import { once } from "node:events";
import { inject, onTestFinished } from "vitest";

const main = inject("programs")["packages/cli/src/main.ts"]!;

/** A running `sluice serve` that takes files. */
export async function serveUploads(folder: string, inbox: string, ...more: string[]): Promise<URL> {
  const args = [main, "serve", folder, "--port", "0", "--no-audit", "--uploads", inbox, ...more];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await once(child, "close");
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  return new URL(line.toString().trim());
}
