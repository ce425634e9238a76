// @module-tag slow
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Client, Transport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createProcessUpstream, openFileTools, type FileTools } from "@sluice/bridge";
import { describe, expect, onTestFinished, test } from "vitest";
import { bridged, createHost } from "./bridged.ts";
import { makeFolders } from "./filing.ts";
import { startHosts, transportTo } from "./hosting.ts";
import {
  clients,
  everything,
  filesIn,
  normal,
  programOf,
  record,
  type Call,
  type Command,
} from "./recording.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep)
  console.info("one server for each SDK, and each way once: all of both run with SLUICE_DEEP");

/** What a host gets behind a bridge over stdio, one with folders, and one over HTTP. */
type Way = "through" | "withFolders" | "overHttp";

/** Compares what a host gets of a server itself with what it gets behind bridges; these ways alone unless deep. */
async function compare(
  client: () => Client,
  [command, ...args]: Command,
  calls: readonly Call[],
  ways: readonly Way[],
) {
  const direct = new StdioClientTransport({ command, args, stderr: "ignore" });
  const behind = (tools?: FileTools) => ({
    upstream: createProcessUpstream({ command, args, wrapOutput: tools?.wrapOutput }),
  });
  const recordings = {
    through: () => record(client(), bridged(behind()).transport, calls),
    async withFolders() {
      const { save, send } = makeFolders();
      const server = { kind: "process", name: "server", url: undefined } as const;
      const tools = await openFileTools({ server, saveTo: save, sendFrom: [send] });
      onTestFinished(() => tools.close());
      const filing = bridged({ upstream: tools.watch(behind(tools).upstream), hooks: tools.hooks });
      return withoutAdded(await record(client(), filing.transport, calls));
    },
    overHttp: async () => record(client(), transportTo(await startHosts(() => behind())), calls),
  } satisfies Record<Way, () => Promise<string[]>>;
  const expected = await record(client(), direct, calls);
  const got: (readonly [Way, readonly string[]])[] = [];
  for (const way of isDeep ? (Object.keys(recordings) as Way[]) : ways)
    got.push([way, await recordings[way]()]);
  return { direct: expected, got };
}

/** Messages without the three tools that folders add, which must be there. */
function withoutAdded(lines: readonly string[]): string[] {
  return lines
    .map((line) => {
      const message = JSON.parse(line) as { readonly result?: { tools?: { name: string }[] } };
      const { tools } = message.result ?? {};
      if (!message.result || !tools) return line;
      expect(tools.splice(-3).map(({ name }) => name)).toEqual([
        "save_resource",
        "list_saved",
        "send_file",
      ]);
      return JSON.stringify(message);
    })
    .toSorted();
}

describe.each(Object.entries(clients))("%s", (name, client) => {
  test.runIf(isDeep || name === "SDK v1")(
    "gets the same messages of the server that has everything",
    async () => {
      const { direct, got } = await compare(
        () => client("file:///home"),
        [process.execPath, programOf("server-everything"), "stdio"],
        everything,
        ["through", "overHttp"],
      );
      // changes of lists are announced at times of the server's choice
      const isSteady = (message: string): boolean => !message.includes("list_changed");
      const steady = direct.filter(isSteady);
      for (const [way, lines] of got)
        expect([way, ...lines.filter(isSteady)]).toEqual([way, ...steady]);
      expect(direct.length).toBeGreaterThan(everything.length);
    },
  );

  test.runIf(isDeep || name === "SDK v2")(
    "gets the same messages of the server of files",
    async () => {
      const folder = realpathSync(mkdtempSync(join(tmpdir(), "sluice-bridge-")));
      onTestFinished(() => rmSync(folder, { recursive: true }));
      writeFileSync(join(folder, "a.txt"), "one");
      const { direct, got } = await compare(
        () => client(pathToFileURL(folder).href),
        [process.execPath, programOf("server-filesystem"), folder],
        filesIn(folder),
        ["withFolders"],
      );
      // the first run wrote a file that the others list
      const before = (lines: readonly string[]) =>
        lines.map((line) => line.replace(/\\n\[FILE\] b\.txt/g, ""));
      for (const [way, lines] of got)
        expect([way, ...before(lines)]).toEqual([way, ...before(direct)]);
      expect(direct.length).toBeGreaterThanOrEqual(filesIn(folder).length);
    },
  );
});

test("a host of 2026-07-28 gets the same content of the server that has everything", async () => {
  const command = [programOf("server-everything"), "stdio"];
  const contents = async (client: Client, transport: Transport): Promise<unknown[]> => {
    await client.connect(transport);
    const got: unknown[] = [];
    for (const call of everything) {
      if (call.method !== "tools/call") continue;
      const result = await client
        .callTool(call.params as never)
        .catch((error: unknown) => ({ content: String(error) }));
      got.push(normal(result.content));
    }
    await client.close();
    return got;
  };
  const direct = new StdioClientTransport({
    command: process.execPath,
    args: command,
    stderr: "ignore",
  });
  const behind = () => ({
    upstream: createProcessUpstream({ command: process.execPath, args: command }),
  });
  const expected = await contents(createHost("legacy"), direct);
  const transports: Transport[] = [transportTo(await startHosts(behind))];
  const all = isDeep ? [...transports, bridged(behind()).transport] : transports;
  for (const transport of all)
    expect(await contents(createHost("modern"), transport)).toEqual(expected);
});
