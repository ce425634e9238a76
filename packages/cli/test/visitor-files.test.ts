// Files that a visitor of the files page sends: each is saved by itself.
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { serveHere } from "./run-here.ts";

vi.setConfig({ testTimeout: 60_000 });

/** A server whose visitors send files into `inbox`. */
async function startServer() {
  const root = await mkdtemp(join(tmpdir(), "sluice-visitor-"));
  onTestFinished(() => rm(root, { recursive: true }));
  const inbox = join(root, "inbox");
  await mkdir(join(root, "files"));
  await mkdir(inbox);
  const served = await serveHere(join(root, "files"), ["--uploads", inbox]);
  onTestFinished(() => void served.end());
  return { inbox, origin: new URL(served.url).origin };
}

const sameOrigin = { "sec-fetch-site": "same-origin" };

/** Sends files on the page that "Send files" leads to, as its script does. */
async function send(origin: string, files: Readonly<Record<string, string>>): Promise<void> {
  const led = await fetch(`${origin}/`, { method: "POST", redirect: "manual" });
  const page = led.headers.get("location")!;
  const html = await (await fetch(page)).text();
  const [, url = ""] = /data-url="([^"]+)"/.exec(html)!;
  const [, uploadId = ""] = /data-upload-id="([^"]+)"/.exec(html)!;
  const receipts: object[] = [];
  for (const [name, body] of Object.entries(files)) {
    const headers = {
      "content-type": "text/plain",
      "content-disposition": `attachment; filename="${name}"`,
    };
    const sent = await fetch(url, { method: "POST", headers, body });
    receipts.push({ ...((await sent.json()) as object), uploadId });
  }
  const body = JSON.stringify({
    answerId: "a".repeat(22),
    action: "accept",
    content: { files: receipts },
  });
  const headers = { ...sameOrigin, "content-type": "application/json" };
  const answered = await fetch(page, { method: "POST", headers, body });
  expect([answered.status, await answered.text()]).toEqual([204, ""]);
}

test("a file of a visitor that cannot be saved keeps none of the others from it", async () => {
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  onTestFinished(() => log.mockRestore());
  const { inbox, origin } = await startServer();
  // every name that is tried for the first file is taken
  const names = Array.from({ length: 99 }, (_, at) => `full (${at + 1}).txt`);
  for (const name of ["full.txt", ...names]) await writeFile(join(inbox, name), "taken");
  await send(origin, { "full.txt": "does not fit", "other.txt": "fits" });
  const read = (): Promise<string> => readFile(join(inbox, "other.txt"), "utf8");
  await vi.waitFor(async () => expect(await read()).toBe("fits"), 10_000);
  expect(String(log.mock.calls)).toContain("too many files are named full.txt");
  expect((await readdir(inbox)).filter((name) => !name.startsWith("."))).toHaveLength(101);
});
