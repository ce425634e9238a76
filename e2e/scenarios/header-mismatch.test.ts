import { expect, test } from "vitest";
import { call } from "../bed/raw.ts";
import { createRandom } from "../bed/random.ts";
import { startSite } from "../bed/site.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const runs = deep ? 10_000 : 300;
const random = createRandom(44);
const secret = "the secret plans";
const files = { "open.txt": "for everybody", "shut.txt": secret };
const [open, shut] = ["files://site/open.txt", "files://site/shut.txt"];

test(
  `${runs} calls whose headers name another resource than their body open nothing more`,
  { tags: "slow", timeout: deep ? 600_000 : 20_000 },
  async () => {
    await using site = await startSite({
      files,
      sluice: { access: (_principal, uri) => (uri === shut ? "hide" : "allow") },
    });
    let left = runs;
    const worker = async (): Promise<void> => {
      while (left-- > 0) {
        const headers: Record<string, string> = {
          "mcp-name": random.pick([open, `${open}, ${shut}`, "", "=?base64?Zm9v?=", "*"]),
          "mcp-method": random.pick(["resources/stream", "resources/read", "tools/list", ""]),
          "mcp-resource-uri": open,
          "x-original-url": `/mcp?uri=${open}`,
        };
        const era = random.pick(["legacy", "modern"] as const);
        const method = random.pick(["resources/stream", "resources/read"]);
        const answer = await call(site.url, method, { uri: shut }, { era, streaming: {}, headers });
        expect(answer.bytes.toString()).not.toContain(secret);
        expect(answer.message?.error).toBeDefined();
      }
    };
    await Promise.all(Array.from({ length: 8 }, worker));
  },
);

test.each(["legacy", "modern"] as const)(
  "a stream whose header names another resource than its body is refused, in the %s era",
  async (era) => {
    await using site = await startSite({ files });
    const stream = (uri: string, name: string) =>
      call(
        site.url,
        "resources/stream",
        { uri },
        { era, streaming: {}, headers: { "mcp-name": name } },
      );
    for (const name of [
      open,
      "",
      "*",
      `${shut}, ${open}`,
      "=?base64?Zm9v?=",
      encodeURI(shut + "%"),
    ]) {
      const { status, message, bytes } = await stream(shut, name);
      expect([name, status, message?.error?.code]).toEqual([name, 400, -32020]);
      expect(bytes.toString()).not.toContain(secret);
    }
    expect((await stream(shut, shut)).bytes.toString()).toBe(secret);
    const encoded = `=?base64?${Buffer.from(shut).toString("base64")}?=`;
    expect((await stream(shut, encoded)).bytes.toString()).toBe(secret);
  },
);
