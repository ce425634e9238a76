import { completable, McpServer, UriTemplate } from "@modelcontextprotocol/server";
import { createMemoryBackend, type StorageBackend, wrapBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { createHouse } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const open = { principal: () => ({ issuer: "i", subject: "s", clientId: "c" }) };
const files = {
  "notes.txt": "",
  "reports/2025/a.pdf": "",
  "reports/2026/b.pdf": "",
  "reports/plan.txt": "",
  "reports/hidden.txt": "",
  "secret/x.txt": "",
  "what?.txt": "",
  "100%25.txt": "",
  "50% off.txt": "",
};
const template = "files://demo/{+key}";

function completing(
  storage: StorageBackend = createMemoryBackend(files),
  author?: (mcp: McpServer) => void,
) {
  const { sluice } = createHouse({
    ...open,
    storage,
    access: (_who, uri) => (/hidden|secret/.test(uri) ? "hide" : "allow"),
  });
  const talk = talkTo(sluice, author);
  return async (era: (typeof eras)[number], value: string, uri = template, name = "key") =>
    (
      await talk(era, "completion/complete", {
        params: { ref: { type: "ref/resource", uri }, argument: { name, value } },
      })
    ).message;
}

describe.each(eras)("completion in the %s era", (era) => {
  test("goes one step at a time, and what is hidden is not suggested [MCP/completion/must-not-disclose]", async () => {
    const complete = completing();
    const values = async (value: string) => (await complete(era, value)).result.completion.values;
    expect(await values("rep")).toEqual(["reports/"]);
    expect(await values("reports/")).toEqual([
      "reports/2025/",
      "reports/2026/",
      "reports/plan.txt",
    ]);
    expect(await values("reports/2026/b")).toEqual(["reports/2026/b.pdf"]);
    expect(await values("sec")).toEqual([]);
    expect(await values("nothing")).toEqual([]);
    expect(await values("x".repeat(2_000))).toEqual([]);
  });

  test("neither an impossible prefix nor the argument of another template is looked up [MCP/completion/must-validate]", async () => {
    let asked = 0;
    const storage = wrapBackend(createMemoryBackend(files), {
      list: (list) => (options) => {
        asked += 1;
        return list(options);
      },
    });
    const complete = completing(storage);
    expect((await complete(era, "x".repeat(1_025))).result.completion.values).toEqual([]);
    expect((await complete(era, "n", template, "other")).result.completion.values).toEqual([]);
    expect((await complete(era, "n", "files://other/{+key}")).error!.code).toBe(-32602);
    expect(asked).toBe(0);
    expect((await complete(era, "n")).result.completion.values).toEqual(["notes.txt"]);
    expect(asked).toBe(1);
  });

  test("suggestions come in the order of the storage [MCP/completion/should-sort]", async () => {
    const storage = wrapBackend(createMemoryBackend(files), {
      list: (list) => async (options) => {
        const page = await list(options);
        return { ...page, objects: page.objects.toReversed() };
      },
    });
    const { completion } = (await completing(storage)(era, "reports/")).result;
    expect(completion.values).toEqual(["reports/plan.txt", "reports/2026/", "reports/2025/"]);
  });

  test("a suggestion in the template is the URI of the resource [MCP/templates/rfc6570]", async () => {
    const complete = completing();
    const { values } = (await complete(era, "")).result.completion;
    const uris = values
      .filter((value: string) => !value.endsWith("/"))
      .map((key: string) =>
        key.includes("%2") || key.includes("%3")
          ? `files://demo/${key}`
          : new UriTemplate(template).expand({ key }),
      );
    expect(uris.toSorted()).toEqual([
      "files://demo/100%2525.txt",
      "files://demo/50%25%20off.txt",
      "files://demo/notes.txt",
      "files://demo/what%3F.txt",
    ]);
    expect((await complete(era, "what%3F")).result.completion.values).toEqual(["what%3F.txt"]);
  });

  test(
    "gives at most 100 suggestions out of 1,000 objects, and says that there are more",
    { tags: "slow" },
    async () => {
      const many = Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`f${n}`, ""]));
      let asked = 0;
      const storage = wrapBackend(createMemoryBackend(many), {
        list: (list) => async (options) => {
          const page = await list({ ...options, limit: Math.min(options?.limit ?? 1e9, 300) });
          asked += page.objects.length;
          return page;
        },
      });
      const { completion } = (await completing(storage)(era, "f")).result;
      expect(completion.values).toHaveLength(100);
      expect(completion.hasMore).toBe(true);
      const folder = Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`d/f${n}`, ""]));
      asked = 0;
      const deep = wrapBackend(createMemoryBackend(folder), {
        list: (list) => async (options) => {
          const page = await list({ ...options, limit: Math.min(options?.limit ?? 1e9, 300) });
          asked += page.objects.length;
          return page;
        },
      });
      const within = (await completing(deep)(era, "")).result.completion;
      // whether the rest is hidden is nobody's business
      expect(within).toEqual({ values: ["d/"] });
      expect(asked).toBe(1_000);
      const talk = talkTo(createHouse({ ...open, storage: deep }).sluice);
      const params = {
        ref: { type: "ref/resource", uri: template },
        argument: { name: "key", value: "" },
      };
      const { result } = (await talk(era, "completion/complete", { params })).message;
      expect(result.completion).toEqual({ values: ["d/"], hasMore: true });
    },
  );

  test("counts as a request of its principal [MCP/completion/must-limit-rate] [ARTICLE/9.2/rate-limit]", async () => {
    let left = 2;
    const limiter = {
      consume: async () => {
        if (left-- === 0) throw Object.assign(new Error("over"), { msBeforeNext: 1_000 });
      },
    };
    const { sluice } = createHouse({ ...open, rates: { requests: { perPrincipal: limiter } } });
    const talk = talkTo(sluice);
    const complete = {
      ref: { type: "ref/resource", uri: template },
      argument: { name: "key", value: "" },
    };
    const read = { uri: "files://demo/a.bin" };
    expect(
      (await talk(era, "completion/complete", { params: complete })).message.error,
    ).toBeUndefined();
    expect((await talk(era, "resources/read", { params: read })).message.error).toBeUndefined();
    for (const [method, params] of [["completion/complete", complete]] as const) {
      const { error } = (await talk(era, method, { params })).message;
      expect(error!.data).toMatchObject({ reason: "busy", retryAfterMs: 1_000 });
    }
  });

  test("the author's completions stay the author's, registered before or after", async () => {
    const prompt = (mcp: McpServer): void =>
      void mcp.registerPrompt(
        "greet",
        { argsSchema: z.object({ name: completable(z.string(), () => ["Ann", "Bob"]) }) },
        () => ({ messages: [] }),
      );
    for (const [before, after] of [
      [prompt, () => {}],
      [() => {}, prompt],
    ] as const) {
      const talk = talkTo(createHouse(open).sluice, before, after);
      const params = {
        ref: { type: "ref/prompt", name: "greet" },
        argument: { name: "name", value: "" },
      };
      const { result } = (await talk(era, "completion/complete", { params })).message;
      expect(result.completion.values).toEqual(["Ann", "Bob"]);
      const ours = {
        ref: { type: "ref/resource", uri: template },
        argument: { name: "key", value: "a" },
      };
      const own = (await talk(era, "completion/complete", { params: ours })).message.result;
      expect(own.completion.values).toEqual(["a.bin"]);
    }
    const { error } = await completing()(era, "x", "files://other/{+key}");
    expect(error!.code).toBe(-32602);
  });
});
