// What the tools take of a model's context, in tokens of o200k_base. Hosts show a model the content or the structure of an answer.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { expect, inject, test } from "vitest";
import { connectLegacyHost, connectModernHost } from "../bed/hosts.ts";
import { startHostSite } from "../bed/host-site.ts";
import { baseUri } from "../bed/site.ts";
import { sha256 } from "../bed/content.ts";

const name = "annual report 2026.pdf";
const content = "%PDF-1.4\n";
const tokensOf = (value: unknown): number => countTokens(JSON.stringify(value));

test(
  "the tools of sluice serve take at most 1,000 tokens, with their schemas and hints",
  { tags: "slow" },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-tokens-"));
    await writeFile(join(folder, name), content);
    const command = [inject("programs")["packages/cli/src/main.ts"]!, "serve", folder, "--stdio"];
    {
      await using host = await connectLegacyHost({
        target: { command: process.execPath, args: [...command, "--no-audit"], home: folder },
      });
      const tools = await host.listTools();
      expect(tools.map((tool) => tool.name)).toEqual([
        "list_files",
        "read_file",
        "stat_file",
        "get_download_link",
      ]);
      expect(tokensOf(tools)).toBeLessThanOrEqual(1_000);
    }
    await rm(folder, { recursive: true });
  },
);

test(
  "a link takes at most 250 tokens, and what asks for a file too, as content or as structure",
  { tags: "slow" },
  async () => {
    await using site = await startHostSite({
      storage: () =>
        wrapBackend(createMemoryBackend({ [name]: content }), {
          describe: (describe) => async (key, options) => ({
            ...(await describe(key, options)),
            digests: { sha256: sha256(Buffer.from(content)) },
          }),
        }),
    });
    await using host = await connectModernHost({ target: site.url });
    const uri = `${baseUri}${encodeURIComponent(name)}`;
    for (const [tool, args] of [
      ["get_download_link", { uri }],
      ["keep_file", {}],
    ] as const) {
      // random letters take more tokens or fewer
      let [asContent, asStructure] = [0, 0];
      for (let time = 0; time < 20; time++) {
        const answer = await host.callTool(tool, args);
        expect(answer.isError).toBeFalsy();
        asContent += tokensOf(answer.content) / 20;
        asStructure += tokensOf(answer.structuredContent) / 20;
      }
      expect(asContent).toBeLessThanOrEqual(250);
      expect(asStructure).toBeLessThanOrEqual(250);
    }
  },
);
