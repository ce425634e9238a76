// A client that knows the schema of a tool's output checks what the bridge gives it in place of large results.
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createMemoryHold,
  createProcessUpstream,
  openFileTools,
  openResultLinks,
  type ResultLinks,
} from "@sluice/bridge";
import { expect, onTestFinished, test } from "vitest";
import { bridged, createHost } from "./bridged.ts";
import { makeFolders } from "./filing.ts";
import { programOf } from "./recording.ts";

const image = randomBytes(200_000);

/** What a client gets of the server of files that reads an image; it knows the schemas of all tools. */
async function readImage(tools: ResultLinks): Promise<{ content: unknown; data: string }> {
  onTestFinished(() => tools.close());
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "sluice-image-")));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "a.png");
  writeFileSync(path, image);
  const args = [programOf("server-filesystem"), folder];
  const { wrapOutput } = tools;
  const upstream = createProcessUpstream({ command: process.execPath, args, wrapOutput });
  const client = createHost("legacy", `file://${folder}`);
  await client.connect(bridged({ upstream: tools.watch(upstream), hooks: tools.hooks }).transport);
  await client.listTools();
  const result = await client.callTool({ name: "read_media_file", arguments: { path } });
  await client.close();
  const { content } = result.structuredContent as { content: [{ data: string }] };
  return { content: result.content, data: content[0].data };
}

test(
  "a large image of a tool with a schema is a file, and the schema holds",
  { tags: "slow" },
  async () => {
    const { save } = makeFolders();
    const server = { kind: "process", name: "files", url: undefined } as const;
    const { content, data } = await readImage(await openFileTools({ server, saveTo: save }));
    expect(content).toMatchObject([{ type: "text" }]);
    const path = /In the file (\S+)/.exec(data)?.[1];
    expect(readFileSync(path!).equals(image)).toBe(true);
  },
);

test(
  "a large image of a tool with a schema is a link, and the schema holds",
  { tags: "slow" },
  async () => {
    const hold = createMemoryHold();
    onTestFinished(() => hold.close());
    const link = async () => ({ url: "https://a.example/d/x", expiresAt: Date.now() + 60_000 });
    const { content, data } = await readImage(await openResultLinks({ hold, link }));
    expect(content).toMatchObject([{ type: "text" }, { type: "resource_link" }]);
    expect(data).toContain("https://a.example/d/x");
  },
);
