import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, inject, test } from "vitest";
import { callTool, handWritten, hostOf, makeFolders, stateIn } from "./filing.ts";

const main = inject("programs")["packages/cli/src/main.ts"]!;
const bytes = Buffer.alloc(3 * 2 ** 20, "0123456789abcdef and so on / ");
const base64 = bytes.toString("base64");
const uri = "x://by/read.bin";

/** A server whose resource stops in the middle while `isStalling` says so. */
function server(isStalling: () => boolean): Promise<URL> {
  return handWritten(({ id, method }, response) => {
    if (method !== "resources/read") return undefined;
    response.writeHead(200, { "content-type": "application/json" });
    response.write(
      `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"contents":[{"uri":"${uri}","blob":"`,
    );
    response.write(base64.slice(0, 2 ** 21));
    if (!isStalling()) response.end(`${base64.slice(2 ** 21)}"}]}}`);
    return undefined;
  });
}

/** A host in front of the command, and the id of the command's process. */
async function hostIn(save: string, url: URL, more: readonly string[] = []) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [main, "bridge", url.href, "--save-to", save, ...more],
    env: stateIn({ save }),
  });
  const client = new Client(
    { name: "host", version: "1" },
    { capabilities: { elicitation: { form: {} } } },
  );
  let asked = 0;
  client.setRequestHandler("elicitation/create", () => {
    asked += 1;
    return new Promise(() => {});
  });
  await client.connect(transport);
  return { client, pid: transport.pid!, asked: () => asked };
}

const spooled = (save: string): string[] => readdirSync(join(save, "spooled"));

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep)
  console.info("killed in the middle only: while the user is asked runs with SLUICE_DEEP");

test.each<[string, boolean]>([
  ["in the middle of the answer", true],
  ...(isDeep ? [["while the user is asked", false] satisfies [string, boolean]] : []),
])("a read that is killed %s begins again, and leaves no part behind", async (_when, isStalled) => {
  const { save } = makeFolders();
  let isStalling = isStalled;
  const url = await server(() => isStalling);
  const killed = await hostIn(save, url, ["--yes-below", "1K"]);
  const call = { name: "save_resource", arguments: { uri, path: "in/a.bin" } };
  const lost = killed.client.callTool(call).catch((error: Error) => error);
  const isThere = (): boolean => (isStalled ? spooled(save).length === 1 : killed.asked() === 1);
  await expect.poll(isThere, { timeout: 30_000 }).toBe(true);
  process.kill(killed.pid, "SIGKILL");
  expect(await lost).toBeInstanceOf(Error);
  expect(spooled(save)).toHaveLength(1);

  isStalling = false;
  const client = await hostOf(url, { saveTo: save });
  await client.listTools();
  expect(spooled(save)).toEqual([]);
  const saved = await callTool(client, "save_resource", { uri, path: "in/a.bin" });
  expect(saved.isError).toBe(false);
  expect(readFileSync(join(save, "in", "a.bin")).equals(bytes)).toBe(true);
  expect(new Set(readdirSync(save, { recursive: true }) as string[])).toEqual(
    new Set(["in", join("in", "a.bin"), "spooled"]),
  );
});
