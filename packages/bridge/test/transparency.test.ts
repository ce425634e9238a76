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

async function compare(client: () => Client, [command, ...args]: Command, calls: readonly Call[]) {
  const direct = new StdioClientTransport({ command, args, stderr: "ignore" });
  const behind = (tools?: FileTools) => ({
    upstream: createProcessUpstream({ command, args, wrapOutput: tools?.wrapOutput }),
  });
  const { save, send } = makeFolders();
  const server = { kind: "process", name: "server", url: undefined } as const;
  const tools = await openFileTools({ server, saveTo: save, sendFrom: [send] });
  onTestFinished(() => tools.close());
  const filing = bridged({ upstream: tools.watch(behind(tools).upstream), hooks: tools.hooks });
  return {
    direct: await record(client(), direct, calls),
    through: await record(client(), bridged(behind()).transport, calls),
    withFolders: withoutAdded(await record(client(), filing.transport, calls)),
    overHttp: await record(client(), transportTo(await startHosts(() => behind())), calls),
  };
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

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info("one server for each SDK: both run with SLUICE_DEEP");

describe.each(Object.entries(clients))("%s", (name, client) => {
  test.runIf(isDeep || name === "SDK v1")(
    "gets the same messages of the server that has everything",
    async () => {
      const { direct, through, withFolders, overHttp } = await compare(
        () => client("file:///home"),
        [process.execPath, programOf("server-everything"), "stdio"],
        everything,
      );
      // changes of lists are announced at times of the server's choice
      const isSteady = (message: string): boolean => !message.includes("list_changed");
      expect(through.filter(isSteady)).toEqual(direct.filter(isSteady));
      expect(withFolders.filter(isSteady)).toEqual(direct.filter(isSteady));
      expect(overHttp.filter(isSteady)).toEqual(direct.filter(isSteady));
      expect(direct.length).toBeGreaterThan(everything.length);
    },
  );

  test.runIf(isDeep || name === "SDK v2")(
    "gets the same messages of the server of files",
    async () => {
      const folder = realpathSync(mkdtempSync(join(tmpdir(), "sluice-bridge-")));
      onTestFinished(() => rmSync(folder, { recursive: true }));
      writeFileSync(join(folder, "a.txt"), "one");
      const { direct, through, withFolders, overHttp } = await compare(
        () => client(pathToFileURL(folder).href),
        [process.execPath, programOf("server-filesystem"), folder],
        filesIn(folder),
      );
      // the first run wrote a file that the others list
      const before = (lines: readonly string[]) =>
        lines.map((line) => line.replace(/\\n\[FILE\] b\.txt/g, ""));
      expect(before(through)).toEqual(before(direct));
      expect(before(withFolders)).toEqual(before(direct));
      expect(before(overHttp)).toEqual(before(direct));
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
  expect(await contents(createHost("modern"), bridged(behind()).transport)).toEqual(expected);
  const hosting = await startHosts(behind);
  expect(await contents(createHost("modern"), transportTo(hosting))).toEqual(expected);
});
