import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
// #region client
import { Client } from "@modelcontextprotocol/client";
import { readBinary } from "@sluice/binary-transfer/client";
import { createStdioClientTransport } from "@sluice/transport-stdio/client";

/** Reads a resource of a server that it runs, and gives its size. */
export async function sizeOf(command: string, args: string[], uri: string): Promise<number> {
  const client = new Client(
    { name: "sizes", version: "1.0.0" },
    { versionNegotiation: { mode: "auto" } },
  );
  await client.connect(createStdioClientTransport({ command, args }));
  try {
    const { body } = await readBinary(client, uri);
    let bytes = 0;
    for await (const chunk of body) bytes += chunk.length;
    return bytes;
  } finally {
    await client.close();
  }
}
// #endregion
import { expect, inject, onTestFinished, test } from "vitest";

test("the README's client reads from the README's server", { tags: "slow" }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-stdio-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "a.bin"), Buffer.alloc(1_000));
  const program = inject("programs")["packages/transport-stdio/test/readme-process.ts"]!;
  expect(await sizeOf(process.execPath, [program, folder], "files://demo/a.bin")).toBe(1_000);
});
