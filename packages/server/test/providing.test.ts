import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { eras, talkTo } from "./talking.ts";
import { alice, createHouse, endpoint } from "./redeeming.ts";

function serve(options: Partial<SluiceOptions> = {}) {
  const errors: unknown[] = [];
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.txt": "stored" }),
    baseUri: "files://demo/",
    endpoint,
    keys: "ephemeral",
    principal: () => alice,
    onWarning: () => {},
    onError: (error) => void errors.push(error),
    ...options,
  } as SluiceOptions);
  return { sluice, errors, talk: talkTo(sluice) };
}

async function textOf(source: { body: ReadableStream<Uint8Array> }): Promise<string> {
  let text = "";
  for await (const chunk of source.body) text += Buffer.from(chunk).toString();
  return text;
}

describe.each(eras)("a provider in the %s era", (era) => {
  test("makes the bytes of a template's resource, directly", async () => {
    const { sluice, talk } = serve();
    sluice.provide("reports://sales/{year}.csv", async function* ({ variables }) {
      yield `year,${variables["year"]}\n`;
      yield "1,2\n";
    });
    const uri = "reports://sales/2026.csv";
    const { slot, message } = await talk(era, "resources/stream", { params: { uri } });
    expect(message.error).toBeUndefined();
    const { reply } = slot as any;
    expect(reply.status).toBe(200);
    expect(await textOf(reply.transfer.source)).toBe("year,2026\n1,2\n");
    const { message: read } = await talk(era, "resources/read", { params: { uri } });
    expect(read.result.contents[0].text).toBe("year,2026\n1,2\n");
    const missing = await talk(era, "resources/stream", { params: { uri: "reports://sales/x" } });
    expect(missing.message.error!.data.reason ?? missing.message.error!.code).toBeTruthy();
    const { message: listed } = await talk(era, "resources/templates/list");
    expect(listed.result.resourceTemplates.map((one: any) => one.uriTemplate)).toEqual([
      "reports://sales/{year}.csv",
      "files://demo/{+key}",
    ]);
  });

  test("sends a client to a URL that it gives, where the origin is allowed [SEP-2532/plan/stream-providers]", async () => {
    const { sluice, talk, errors } = serve({ redirectOrigins: ["https://cdn.example.com"] });
    const expiresAt = Date.now() + 60_000;
    sluice.provide("cdn://x/good.bin", () => ({
      url: "https://cdn.example.com/g?sig=1",
      expiresAt,
    }));
    sluice.provide("cdn://x/bad.bin", () => ({ url: "https://evil.example.com/g", expiresAt }));
    const good = await talk(era, "resources/stream", { params: { uri: "cdn://x/good.bin" } });
    expect((good.slot as any).reply).toMatchObject({ status: 302 });
    expect((good.slot as any).reply.headers).toContain("https://cdn.example.com/g?sig=1");
    expect((good.slot as any).reply.headers).not.toContain("mcp-resource-size");
    const bad = await talk(era, "resources/stream", { params: { uri: "cdn://x/bad.bin" } });
    expect(bad.message.error!.data.reason).toBe("internal");
    expect(String(errors[0])).toContain("redirectOrigins");
  });

  test("is listed where it is for one URI", async () => {
    const { sluice, talk } = serve();
    sluice.provide("reports://sales/today.csv", {
      open: () => "1,2",
      title: "Today",
      mimeType: "text/csv",
    });
    const { message } = await talk(era, "resources/list");
    expect(message.result.resources).toMatchObject([
      { uri: "reports://sales/today.csv", title: "Today", mimeType: "text/csv" },
      { uri: "files://demo/a.txt" },
    ]);
  });
});

test("a provider hides the object of storage that has its URI, in lists as in reads", async () => {
  const { sluice, talk } = serve({
    storage: createMemoryBackend({ "a.txt": "stored", "b.txt": "stored" }),
  });
  sluice.provide("files://demo/a.txt", { open: () => "made", title: "Made" });
  const { message: listed } = await talk("modern", "resources/list");
  expect(listed.result.resources).toMatchObject([
    { uri: "files://demo/a.txt", title: "Made" },
    { uri: "files://demo/b.txt" },
  ]);
  const params = { uri: "files://demo/a.txt" };
  const { message: read } = await talk("modern", "resources/read", { params });
  expect(read.result.contents[0].text).toBe("made");
});

test("parts of a resource that is made whole are read, to its end and no further", async () => {
  const { sluice, talk } = serve();
  const rows = Array.from({ length: 100 }, (_, n) => `row ${n}\n`);
  sluice.provide("reports://sales/rows.csv", () => rows.join(""));
  sluice.provide("reports://sales/more.csv", async function* () {
    yield* rows;
  });
  for (const uri of ["reports://sales/rows.csv", "reports://sales/more.csv"]) {
    const read = async (range: string) => {
      const _meta = { "dev.sluice/resource-streaming": { range } };
      const { message } = await talk("modern", "resources/read", { params: { uri, _meta } });
      const [content] = message.result.contents;
      return [content.text, content._meta["dev.sluice/resource-streaming"].next];
    };
    expect(await read("bytes 0-5")).toEqual(["row 0\n", "bytes 6-"]);
    expect(await read("bytes 6-11")).toEqual(["row 1\n", "bytes 12-"]);
    expect(await read("lines 99-100")).toEqual(["row 98\nrow 99\n", undefined]);
    expect(await read("bytes 682-")).toEqual([rows.join("").slice(682), undefined]);
  }
});

test("a range behind the end of a resource makes nothing", async () => {
  let made = 0;
  const { sluice, talk } = serve();
  sluice.provide("reports://sales/rows.csv", {
    open: () => ((made += 1), "row"),
    describe: () => ({ size: 3, version: "1" }),
    rewind: true,
  });
  const _meta = { "dev.sluice/resource-streaming": { range: "bytes 3-" } };
  const params = { uri: "reports://sales/rows.csv", _meta };
  const { message } = await talk("modern", "resources/read", { params });
  expect(message.error!.data.suggestion).toContain("3 bytes");
  expect(made).toBe(0);
});

test("changes of a resource that is made are not listened to, and those of storage beside it are", async () => {
  const { sluice } = serve();
  sluice.provide("reports://sales/rows.csv", () => "row");
  const resourceSubscriptions = ["reports://sales/rows.csv", "files://demo/a.txt"];
  const listening = await sluice.host.listen({
    id: 1,
    params: { notifications: { resourceSubscriptions } },
    caller: { header: () => undefined },
  });
  if (!("next" in listening)) throw new Error("refused");
  expect(listening.params).toEqual({
    notifications: { resourceSubscriptions: ["files://demo/a.txt"] },
  });
  listening.close();
});

test("a hidden resource is not made: not to look, and not by another name", async () => {
  const made: string[] = [];
  const { sluice, talk } = serve({
    access: (_who, uri) => (uri.endsWith("secret") ? "hide" : "allow"),
  });
  sluice.provide("reports://sales/{name}", {
    open: ({ uri }) => (made.push(uri), "text"),
    describe: ({ uri }) => (made.push(uri), {}),
  });
  for (const name of ["secret", "%73ecret"])
    for (const method of ["resources/stream", "resources/read"]) {
      const { message } = await talk("modern", method, {
        params: { uri: `reports://sales/${name}` },
      });
      expect(message.error!.data.reason).toBe("not_found");
    }
  expect(made).toEqual([]);
  await talk("modern", "resources/read", { params: { uri: "reports://sales/open" } });
  expect(made).toContain("reports://sales/open");
});

test("other bytes than the digest that a provider told never look complete", async () => {
  const { sluice, talk } = serve();
  const sha256 = "0".repeat(64);
  sluice.provide("reports://sales/a.csv", { open: () => "1,2", describe: () => ({ sha256 }) });
  const { slot } = await talk("modern", "resources/stream", {
    params: { uri: "reports://sales/a.csv" },
  });
  await expect(textOf((slot as any).reply.transfer.source)).rejects.toMatchObject({
    code: "corrupt",
  });
});

test("a provider for one URI answers for it, also behind a template that matches", async () => {
  const { sluice, talk } = serve();
  sluice.provide("reports://sales/{name}.csv", () => "of the template");
  sluice.provide("reports://sales/today.csv", () => "of today");
  const read = async (name: string): Promise<string> => {
    const params = { uri: `reports://sales/${name}.csv` };
    return (await talk("modern", "resources/read", { params })).message.result.contents[0].text;
  };
  expect([await read("today"), await read("other")]).toEqual(["of today", "of the template"]);
});

test("a page rule of a provider without a rule beside it is refused when it is given", () => {
  const { sluice } = serve();
  const provider = { open: () => "1", accessPage: () => [] };
  // @ts-expect-error: a page rule needs a rule
  expect(() => sluice.provide("reports://sales/a.csv", provider)).toThrow(
    /accessPage also needs access/,
  );
});

test("a download URL of a provider makes the bytes when it is redeemed", async () => {
  const house = createHouse({ redirectOrigins: ["https://cdn.example.com"] });
  const expiresAt = Date.now() + 60_000;
  house.sluice.provide(
    "reports://sales/{year}.csv",
    ({ variables }) => `year ${variables["year"]}`,
  );
  house.sluice.provide("cdn://x/good.bin", () => ({ url: "https://cdn.example.com/g", expiresAt }));
  const identity = { mayMint: true, maxTtlMs: 3_600_000 };
  const tokenOf = async (uri: string) =>
    (await house.sluice.host.mint(identity, house.sluice.host.nameOf(uri), undefined))!.token;
  const reply = await house.redeem(await tokenOf("reports://sales/2026.csv"));
  expect(reply.status).toBe(200);
  expect(await textOf(reply.transfer!.source)).toBe("year 2026");
  const sent = await house.redeem(await tokenOf("cdn://x/good.bin"));
  expect(sent.status).toBe(302);
});
