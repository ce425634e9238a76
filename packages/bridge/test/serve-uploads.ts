import { onTestFinished } from "vitest";
import { serveHere } from "../../cli/test/run-here.ts";

/** A running `sluice serve` that takes files. */
export async function serveUploads(folder: string, inbox: string, ...more: string[]): Promise<URL> {
  const served = await serveHere(folder, ["--uploads", inbox, ...more]);
  onTestFinished(async () => {
    await served.end();
  });
  return new URL(served.url);
}
