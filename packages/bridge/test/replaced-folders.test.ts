import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { saveBytes } from "@sluice/client/internal";
import { expect, test } from "vitest";
import { createHost } from "./bridged.ts";
import { callTool, handWritten, hostOf, makeFolders, type Folders } from "./filing.ts";

const bytes = Buffer.alloc(200_000, "0123456789abcdef ");
const hasDescriptors = process.platform === "linux";
if (!hasDescriptors)
  console.info("folders cannot be named by descriptors here: changes are detected only");

/** Puts a link to a folder outside in the place of `in`. */
function swap({ save, outside }: Folders): void {
  renameSync(join(save, "in"), join(save, "moved"));
  symlinkSync(outside, join(save, "in"));
}

/** A server of a resource, and of a link whose body goes on once the bridge writes to the folder `in` and `between` is done. */
function slow({ save }: Folders, between: () => void): Promise<URL> {
  const hasPart = (name: string): boolean =>
    existsSync(join(save, name)) &&
    readdirSync(join(save, name)).some((file) => /\.(?:part|kept)$/.test(file));
  return handWritten(
    ({ method, params }) =>
      method === "resources/read"
        ? { result: { contents: [{ uri: params["uri"], blob: bytes.toString("base64") }] } }
        : undefined,
    (_request, response) => {
      response.writeHead(200, { "content-length": bytes.length, etag: '"1"' });
      response.write(bytes.subarray(0, 100_000));
      const timer = setInterval(() => {
        if (!hasPart("in") && !hasPart("moved")) return;
        clearInterval(timer);
        between();
        response.end(bytes.subarray(100_000));
      }, 20);
      response.on("close", () => clearInterval(timer));
    },
  );
}

test("a folder that becomes a link while a body comes gets no file, and what is behind it none", async () => {
  const folders = makeFolders();
  const url = await slow(folders, () => swap(folders));
  const client = await hostOf(url, { saveTo: folders.save });
  const uri = new URL("/a", url).href;
  const said = await callTool(client, "save_resource", { uri, path: "in/a.bin" });
  expect(said.isError).toBe(true);
  expect(said.text).not.toContain("/proc/");
  expect(readdirSync(folders.outside)).toEqual([]);
  // elsewhere the part stays in the folder that was moved
  const left = hasDescriptors ? readdirSync(join(folders.save, "moved")) : [];
  expect(left).toEqual([]);
  expect(said.text).not.toContain("/proc/");
});

for (const revision of ["legacy", "modern"] as const)
  test.each([
    ["a link", (url: URL) => new URL("/a", url).href],
    ["a read", () => "x://by/read"],
  ])(
    `${revision} host: a folder that becomes a link while the user is asked gets no file: %s`,
    async (_way, uriOf) => {
      const folders = makeFolders();
      mkdirSync(join(folders.save, "in"));
      const host = createHost(revision);
      const asked: string[] = [];
      host.setRequestHandler("elicitation/create", ({ params }) => {
        asked.push(params.message);
        swap(folders);
        return { action: "accept", content: { agree: true } } as never;
      });
      const url = await slow(folders, () => {});
      const client = await hostOf(url, { saveTo: folders.save, agreedBytes: 1_000 }, host);
      const args = { uri: uriOf(url), path: "in/a.bin" };
      const said = await callTool(client, "save_resource", args);
      expect(asked).toHaveLength(1);
      expect(asked[0]).not.toContain("/proc/");
      expect(said.isError).toBe(true);
      expect(readdirSync(folders.outside)).toEqual([]);
      expect(readdirSync(join(folders.save, "moved"))).toEqual([]);
    },
  );

test("a save that writes to the path it had checked is caught: its file is behind the link", async () => {
  const folders = makeFolders();
  const path = join(folders.save, "in", "a.bin");
  mkdirSync(dirname(path));
  swap(folders);
  await saveBytes(bytes, path, { name: "a.bin" });
  expect(readdirSync(folders.outside)).toEqual(["a.bin"]);
});

test("a folder that is swapped and swapped back has the file", async () => {
  const folders = makeFolders();
  const url = await slow(folders, () => {
    if (!hasDescriptors) return;
    swap(folders);
    renameSync(join(folders.save, "in"), join(folders.save, "link"));
    renameSync(join(folders.save, "moved"), join(folders.save, "in"));
  });
  const client = await hostOf(url, { saveTo: folders.save });
  const uri = new URL("/a", url).href;
  const said = await callTool(client, "save_resource", { uri, path: "in/a.bin" });
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  expect(said.facts).toMatchObject({ path: join(folders.save, "in", "a.bin"), sha256 });
  expect(readFileSync(join(folders.save, "in", "a.bin")).equals(bytes)).toBe(true);
});

test("a file of the user that is behind the link stays", async () => {
  const folders = makeFolders();
  writeFileSync(join(folders.outside, "a.bin"), "mine");
  const url = await slow(folders, () => swap(folders));
  const client = await hostOf(url, { saveTo: folders.save });
  const uri = new URL("/a", url).href;
  const said = await callTool(client, "save_resource", { uri, path: "in/a.bin" });
  expect(said.isError).toBe(true);
  expect(readFileSync(join(folders.outside, "a.bin"), "utf8")).toBe("mine");
});
