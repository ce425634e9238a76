import { createHash } from "node:crypto";
import type { Client } from "@modelcontextprotocol/client";
import type { McpServer } from "@modelcontextprotocol/server";
import type { AuditRecord, RateLimiter } from "@sluice/server";
import type { StorageBackend } from "@sluice/storage";
import type { Fields, Uploads } from "@sluice/uploads";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { sdkNames, type SdkName } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import {
  connectLiteral,
  connectSender,
  postForm,
  type LiteralOptions,
  type Question,
  type SenderOptions,
} from "../bed/senders.ts";
import { startSite, type Site, type SiteOptions } from "../bed/site.ts";

const accounts = { "ada-token": { subject: "ada" }, "eve-token": { subject: "eve" } };

/** The first bytes of a PNG: no check reads further. */
function png(size: number): Buffer {
  const head = Buffer.alloc(41);
  head.write("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "latin1");
  head.writeUInt32BE(size - 45, 33);
  head.write("IDAT", 37);
  return Buffer.concat([head, bytesOf(size - head.length, "png")]);
}

const sunset = png(300_000);
const sha256Of = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const sunsetFile = new File([sunset], "sunset.png", { type: "image/png" });
const sunsetBlob = { blob: new Blob([sunset]), name: "sunset.png", mimeType: "image/png" };

const picture = {
  picture: {
    type: "file",
    title: "Picture",
    description: "To be looked at",
    accept: ["image/*"],
    maxBytes: 5_000_000,
  },
  note: { type: "string", maxLength: 50 },
} as const satisfies Fields;

/** Registers a tool that asks for files, reads them as streams, and says what it got. */
function registerLook(fields: Fields, onProgress?: (bytes: number) => void) {
  return (mcp: McpServer, uploads: Uploads) =>
    mcp.registerTool("look", { inputSchema: z.object({}) }, async (_args, ctx) => {
      const outcome = await uploads.ask(
        {
          message: "A picture, please",
          fields,
          ...(onProgress && { onProgress: ({ progress }) => onProgress(progress) }),
        },
        { mcp, ctx },
      );
      if (outcome.action === "ask") return outcome.result;
      if (outcome.action !== "accept") return { content: [{ type: "text", text: outcome.action }] };
      const told: unknown[] = [];
      for (const file of Object.values(outcome.files).flat()) {
        if (!file) continue;
        const { body } = await file.open();
        const hash = createHash("sha256");
        for await (const chunk of body) hash.update(chunk);
        const { name, size, mimeType, scan } = file;
        told.push({ name, size, mimeType, scan, read: hash.digest("hex") });
      }
      const text = JSON.stringify({ files: told, values: outcome.values });
      return { content: [{ type: "text", text }] };
    });
}

async function startAsking(
  options: SiteOptions & { fields?: Fields; onProgress?: (bytes: number) => void } = {},
): Promise<Site> {
  const { fields = picture, onProgress, ...more } = options;
  const site = await startSite({
    accounts,
    sessions: true,
    asking: registerLook(fields, onProgress),
    ...more,
  });
  onTestFinished(() => site[Symbol.asyncDispose]());
  return site;
}

async function look(client: Client): Promise<{ text: string; isError: boolean }> {
  onTestFinished(() => client.close());
  const { content, isError } = await client.callTool({ name: "look", arguments: {} });
  return { text: (content as { text: string }[])[0]!.text, isError: isError === true };
}

const sender = (sdk: SdkName, site: Site, options: SenderOptions) =>
  connectSender(sdk, site.url, { token: "ada-token", ...options });
const literal = (sdk: SdkName, site: Site, options: LiteralOptions) =>
  connectLiteral(sdk, site.url, { token: "ada-token", ...options });

/** Keys of all bytes that are kept. */
async function bytesKept(received: StorageBackend): Promise<string[]> {
  const { objects } = await received.list();
  return objects.map(({ key }) => key).filter((key) => /\/(?:bytes|part)-/.test(key));
}

const accept = (question: Question, files: object, field = "picture") => {
  const { uploadId } = question.uploadEndpoints[field]!;
  return { action: "accept", content: { [field]: { ...files, uploadId } } };
};
const named = { name: "sunset.png", size: sunset.length, mimeType: "image/png" };
const seen = { ...named, scan: "unscanned", read: sha256Of(sunset) };

describe.each(sdkNames)("%s", (sdk) => {
  test(
    "our client sends what the user picked, and the tool reads it as a stream [SEP-1306/1.capability/must-declare] [SEP-1306/3.response/accept] [SEP-1306/privacy/must-inform]",
    { tags: "slow" },
    async () => {
      const site = await startAsking();
      const client = await sender(sdk, site, {
        onFilesRequested({ message, origin, fields }) {
          expect(message).toBe("A picture, please");
          expect(origin).toBe(site.origin);
          expect(fields).toMatchObject([{ name: "picture", destination: site.origin }]);
          return {
            action: "accept",
            files: { picture: [sunsetBlob] },
            values: { note: "At the sea" },
          };
        },
      });
      const { text, isError } = await look(client);
      expect(isError, text).toBe(false);
      expect(JSON.parse(text)).toEqual({ files: [seen], values: { note: "At the sea" } });
    },
  );

  test("a client that knows the text alone gets by with it [SEP-1306/2.request/must-type-file] [SEP-1306/2.request/file-properties] [SEP-1306/2.request/should-guid] [SEP-1306/5.upload/must-2xx] [SEP-1306/5.upload/may-tell-more]", async () => {
    const site = await startAsking();
    const client = await literal(sdk, site, {
      async answer(question) {
        const { properties, required } = question.requestedSchema;
        expect(required).toEqual(["picture"]);
        expect(properties).toMatchObject({
          picture: {
            type: "file",
            title: "Picture",
            description: "To be looked at",
            accept: ["image/*"],
            maxSize: 5_000_000,
            multiple: false,
            required: true,
          },
          note: { type: "string", maxLength: 50 },
        });
        const { url, method, uploadId } = question.uploadEndpoints["picture"]!;
        expect(method).toBe("POST");
        // not the recommended form, and harder to guess than it
        expect(uploadId).toMatch(/^[\w-]{32}$/);
        const { status, body } = await postForm(url, [sunsetFile], "ada-token");
        expect(status).toBeGreaterThanOrEqual(200);
        expect(status).toBeLessThan(300);
        expect(JSON.stringify(body)).toContain(sha256Of(sunset));
        return accept(question, named);
      },
    });
    const { text, isError } = await look(client);
    expect(isError, text).toBe(false);
    expect(JSON.parse(text)).toEqual({ files: [seen], values: {} });
  });

  test("each field for files has an endpoint of its own, and what came there is the field's [SEP-1306/2.request/endpoints]", async () => {
    const fields = { before: { type: "file" }, after: { type: "file" } } as const;
    const site = await startAsking({ fields });
    const asked: Question["uploadEndpoints"][] = [];
    const answerBy = (idOf: (question: Question, field: string) => string) =>
      literal(sdk, site, {
        async answer(question) {
          asked.push(question.uploadEndpoints);
          const content: Record<string, object> = {};
          for (const field of ["before", "after"]) {
            const { url } = question.uploadEndpoints[field]!;
            const file = new File([field], `${field}.txt`, { type: "text/plain" });
            expect((await postForm(url, [file], "ada-token")).status).toBe(201);
            const { name, size, type: mimeType } = file;
            content[field] = { name, size, mimeType, uploadId: idOf(question, field) };
          }
          return { action: "accept", content };
        },
      });
    const own = await answerBy((question, field) => question.uploadEndpoints[field]!.uploadId);
    const { text, isError } = await look(own);
    expect(isError, text).toBe(false);
    expect(JSON.parse(text).files).toMatchObject([
      { name: "before.txt", read: sha256Of(Buffer.from("before")) },
      { name: "after.txt", read: sha256Of(Buffer.from("after")) },
    ]);
    for (const { before, after, ...others } of asked) {
      expect(others).toEqual({});
      for (const endpoint of [before!, after!])
        expect(endpoint).toMatchObject({
          url: expect.stringContaining(`${site.url}/uploads/`),
          method: "POST",
          uploadId: expect.stringMatching(/./),
        });
      expect(before!.url).not.toBe(after!.url);
      expect(before!.uploadId).not.toBe(after!.uploadId);
    }
    const swapped = { before: "after", after: "before" } as const;
    const mixed = await answerBy(
      (question, field) => question.uploadEndpoints[swapped[field as "before"]]!.uploadId,
    );
    expect((await look(mixed)).isError).toBe(true);
  });

  test("several files of one field, in one form or one by one [SEP-1306/3.response/multiple]", async () => {
    const fields = { documents: { type: "file", multiple: true } } as const;
    const texts = ["one", "two"].map(
      (text) => new File([text], `${text}.txt`, { type: "text/plain" }),
    );
    const site = await startAsking({ fields });
    const byHand = await literal(sdk, site, {
      async answer(question) {
        const { url, uploadId } = question.uploadEndpoints["documents"]!;
        expect((await postForm(url, texts, "ada-token")).status).toBeLessThan(300);
        const answered = texts.map(({ name, size, type }) => ({
          name,
          size,
          mimeType: type,
          uploadId,
        }));
        return { action: "accept", content: { documents: answered } };
      },
    });
    const ours = await sender(sdk, site, {
      onFilesRequested: () => ({
        action: "accept",
        files: { documents: texts.map((blob) => ({ blob, name: blob.name })) },
      }),
    });
    for (const client of [byHand, ours]) {
      const { text } = await look(client);
      expect(JSON.parse(text).files.map(({ name }: { name: string }) => name)).toEqual([
        "one.txt",
        "two.txt",
      ]);
    }
  });

  test("a user's no leaves nothing behind [SEP-1306/3.response/decline-cancel]", async () => {
    const site = await startAsking();
    const ours = await sender(sdk, site, { onFilesRequested: () => ({ action: "decline" }) });
    expect(await look(ours)).toEqual({ text: "decline", isError: false });
    const byHand = await literal(sdk, site, {
      async answer(question) {
        await postForm(question.uploadEndpoints["picture"]!.url, [sunsetFile], "ada-token");
        return { action: "cancel" };
      },
    });
    expect(await look(byHand)).toEqual({ text: "cancel", isError: false });
    expect(await bytesKept(site.received)).toEqual([]);
  });

  test(
    "nobody confirms or sends what was asked of somebody else [SEP-1306/security/must-validate-token] [SEP-1306/security/should-name-upload]",
    { tags: "slow" },
    async () => {
      const site = await startAsking();
      let adas: Question | undefined;
      const ada = await literal(sdk, site, {
        async answer(question) {
          adas = question;
          const { url } = question.uploadEndpoints["picture"]!;
          // another principal, or none, with ada's URL
          expect((await postForm(url, [sunsetFile], "eve-token")).status).toBe(404);
          expect((await postForm(url, [sunsetFile])).status).toBe(401);
          expect((await postForm(url, [sunsetFile], "invented-token")).status).toBe(401);
          expect(await bytesKept(site.received)).toEqual([]);
          await postForm(url, [sunsetFile], "ada-token");
          const eve = await connectLiteral(sdk, site.url, {
            token: "eve-token",
            answer: (hers) => {
              expect(hers.uploadEndpoints["picture"]!.url).not.toBe(url);
              return accept(question, named);
            },
          });
          expect((await look(eve)).text).toMatch(/upload id of another question/);
          return accept(question, named);
        },
      });
      expect((await look(ada)).isError).toBe(false);
      // the URL has served its purpose
      const { url } = adas!.uploadEndpoints["picture"]!;
      const { status } = await postForm(url, [sunsetFile], "ada-token");
      expect(status).toBeGreaterThanOrEqual(400);
      expect(await bytesKept(site.received)).toHaveLength(1);
    },
  );

  test("a client that can only open links gets the page, and the tool what was sent from there [SEP-1306/compatibility/should-fall-back]", async () => {
    const site = await startAsking();
    const client = await literal(sdk, site, {
      capabilities: { elicitation: { url: {} } },
      async answer({ mode, url = "" }) {
        expect(mode).toBe("url");
        // what the page's script does in a browser, without a bearer token
        const html = await (await fetch(url)).text();
        const [slotUrl = ""] = /http[^"]*\/uploads\/v1\.[\w.-]+/.exec(html) ?? [];
        const { body } = await postForm(slotUrl, [sunsetFile]);
        const sent = { ...named, uploadId: body["uploadId"] };
        const done = await fetch(url, {
          method: "POST",
          headers: { "content-type": "application/json", origin: site.origin },
          body: JSON.stringify({
            answerId: "by-hand-by-hand-by-hand",
            action: "accept",
            content: { picture: sent, note: "by hand" },
          }),
        });
        expect(done.status).toBe(204);
        return { action: "accept" };
      },
    });
    const { text, isError } = await look(client);
    expect(isError, text).toBe(false);
    expect(JSON.parse(text)).toEqual({ files: [seen], values: { note: "by hand" } });
  });

  test("a client with forms only is told what it must be able to do [SEP-1306/compatibility/should-read-empty-as-form] [SEP-1306/compatibility/should-fall-back]", async () => {
    const site = await startAsking();
    const missing = {
      code: -32021,
      data: { requiredCapabilities: { elicitation: { binary: {} } } },
    };
    const failed = { isError: true, text: expect.stringContaining("elicitation.binary") };
    for (const capabilities of [{ elicitation: {} }, { elicitation: { form: {} } }, {}]) {
      const client = await literal(sdk, site, { capabilities });
      const outcome = await look(client).catch((error: unknown) => error);
      expect(outcome).toMatchObject(sdk === "SDK v2, modern" ? missing : failed);
    }
  });
});

test(
  "a claim that does not match the received files is refused, and nothing is kept",
  { tags: "slow" },
  async () => {
    const site = await startAsking();
    const answers: readonly [string, (question: Question) => object][] = [
      ["another size", (question) => accept(question, { ...named, size: 7 })],
      ["another name", (question) => accept(question, { ...named, name: "dawn.png" })],
      ["another type", (question) => accept(question, { ...named, mimeType: "image/gif" })],
      ["another digest", (question) => accept(question, { ...named, sha256: "0".repeat(64) })],
      ["no file", () => ({ action: "accept", content: { note: "none" } })],
      [
        "another upload",
        () => ({ action: "accept", content: { picture: { ...named, uploadId: "x".repeat(32) } } }),
      ],
    ];
    for (const [what, answer] of answers) {
      const client = await literal("SDK v2, legacy", site, {
        async answer(question) {
          await postForm(question.uploadEndpoints["picture"]!.url, [sunsetFile], "ada-token");
          return answer(question);
        },
      });
      expect((await look(client)).isError, what).toBe(true);
      expect(await bytesKept(site.received), what).toEqual([]);
    }
    // a file that never came
    const client = await literal("SDK v2, legacy", site, {
      answer: (question) => accept(question, named),
    });
    expect((await look(client)).isError).toBe(true);
  },
);

test("modern: the refusal of a client that cannot send files is HTTP 400", async () => {
  const site = await startAsking();
  const response = await fetch(site.url, {
    method: "POST",
    headers: {
      authorization: "Bearer ada-token",
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "look",
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: {
        name: "look",
        arguments: {},
        _meta: {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
          "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } },
        },
      },
    }),
  });
  expect(await response.json()).toMatchObject({ error: { code: -32021 } });
  expect(response.status).toBe(400);
});

test.each(["SDK v2, legacy", "SDK v1"] as const)(
  "%s: a server that wants to hear of progress does [SEP-1306/5.progress/may-request] [SEP-1306/5.progress/may-notify] [SEP-1306/5.progress/may-use]",
  async (sdk) => {
    const heard: number[] = [];
    const site = await startAsking({ onProgress: (bytes) => heard.push(bytes) });
    const client = await sender(sdk, site, {
      onFilesRequested: () => ({ action: "accept", files: { picture: [sunsetBlob] } }),
    });
    expect((await look(client)).isError).toBe(false);
    expect(heard.at(-1)).toBe(sunset.length);
    expect(heard).toEqual(heard.toSorted((a, b) => a - b));
  },
);

test("our client rejects what was not asked for before it opens or sends anything [SEP-1306/1.capability/limits] [SEP-1306/6.validation/must-reject-size] [SEP-1306/6.validation/should-filter-type] [SEP-1306/6.validation/must-take-one]", async () => {
  const site = await startAsking();
  const sent: string[] = [];
  const picks = [
    [{ ...sunsetBlob, blob: new Blob([Buffer.alloc(6_000_000)]) }],
    [{ blob: new Blob(["a,b"]), name: "table.csv", mimeType: "text/csv" }],
    [sunsetBlob, sunsetBlob],
  ];
  for (const picked of picks) {
    const client = await sender("SDK v2, modern", site, {
      maxFileBytes: 7_000_000,
      onFilesRequested: () => ({ action: "accept", files: { picture: picked } }),
      onProgress: ({ name }) => sent.push(name),
    });
    await expect(look(client)).rejects.toThrow(/client: field "picture"/);
  }
  const small = await sender("SDK v2, modern", site, {
    maxFileBytes: 1_000,
    onFilesRequested({ fields }) {
      expect(fields[0]!.maxBytes).toBe(1_000);
      return { action: "accept", files: { picture: [sunsetBlob] } };
    },
    onProgress: ({ name }) => sent.push(name),
  });
  await expect(look(small)).rejects.toThrow(/client: field "picture"/);
  expect(sent).toEqual([]);
  expect(await bytesKept(site.received)).toEqual([]);
});

test(
  "a refusal of the endpoint leaves nothing, and the tool is told of it",
  { tags: "slow" },
  async () => {
    const refused: readonly [SiteOptions["uploads"] & object, File, number][] = [
      [{}, new File(["plain text"], "sunset.png", { type: "image/png" }), 415],
      [{}, new File(["a,b"], "table.csv", { type: "text/csv" }), 415],
      [{}, new File([png(5_000_001)], "sunset.png", { type: "image/png" }), 413],
      [{ limits: { fileBytes: { perPrincipal: 1_000 } } }, sunsetFile, 507],
    ];
    for (const [uploads, file, status] of refused) {
      const site = await startAsking({ uploads, sluice: { onError() {} } });
      const client = await literal("SDK v2, modern", site, {
        async answer(question) {
          const answer = await postForm(
            question.uploadEndpoints["picture"]!.url,
            [file],
            "ada-token",
          );
          expect.soft(answer.status, file.name).toBe(status);
          return accept(question, { name: file.name, size: file.size, mimeType: file.type });
        },
      });
      expect((await look(client)).isError).toBe(true);
      expect(await bytesKept(site.received)).toEqual([]);
    }
  },
);

test("a duplicate part and a form without a file are refused, and nothing is kept", async () => {
  const site = await startAsking();
  const client = await literal("SDK v2, modern", site, {
    async answer(question) {
      const { url } = question.uploadEndpoints["picture"]!;
      expect((await postForm(url, [sunsetFile, sunsetFile], "ada-token")).status).toBe(413);
      expect((await postForm(url, [], "ada-token")).status).toBe(400);
      return { action: "cancel" };
    },
  });
  await look(client);
  expect(await bytesKept(site.received)).toEqual([]);
});

test("a file that the scanner rejects never reaches the tool [SEP-1306/security/should-scan]", async () => {
  const scanned: string[] = [];
  const site = await startAsking({
    uploads: {
      scan(_body, { name }) {
        scanned.push(name);
        return name.startsWith("bad") ? "reject" : "clean";
      },
    },
  });
  const names = ["bad.png", "good.png"];
  const outcomes = [];
  for (const name of names) {
    const client = await literal("SDK v2, modern", site, {
      async answer(question) {
        const file = new File([sunset], name, { type: "image/png" });
        await postForm(question.uploadEndpoints["picture"]!.url, [file], "ada-token");
        return accept(question, { ...named, name });
      },
    });
    outcomes.push(await look(client));
  }
  expect(scanned).toEqual(names);
  expect(outcomes.map(({ isError }) => isError)).toEqual([true, false]);
  expect(JSON.parse(outcomes[1]!.text).files).toMatchObject([{ scan: "clean" }]);
  expect(await bytesKept(site.received)).toHaveLength(1);
});

test("requests to upload endpoints are limited in rate, for each caller alone [SEP-1306/security/should-limit-rate]", async () => {
  let isOver = false;
  const over = new Set<string>();
  const perPrincipal: RateLimiter = {
    async consume(key) {
      // as the library does: what it throws says how long to wait
      if (over.has(key)) throw Object.assign(new Error("over"), { msBeforeNext: 7_000 });
      if (isOver) over.add(key);
    },
  };
  const site = await startAsking({ sluice: { rates: { requests: { perPrincipal } } } });
  const post = async (question: Question, token: string): Promise<Response> =>
    fetch(question.uploadEndpoints["picture"]!.url, {
      method: "POST",
      body: sunset,
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "image/png",
        "content-disposition": 'attachment; filename="sunset.png"',
      },
    });
  const ada = await literal("SDK v2, modern", site, {
    async answer(question) {
      const eve = await connectLiteral("SDK v2, modern", site.url, {
        token: "eve-token",
        async answer(hers) {
          isOver = true;
          expect((await post(question, "ada-token")).status).toBe(201);
          const refused = await post(question, "ada-token");
          expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "7"]);
          expect((await post(hers, "eve-token")).status).toBe(201);
          isOver = false;
          over.clear();
          return { action: "cancel" };
        },
      });
      expect((await look(eve)).text).toBe("cancel");
      return accept(question, named);
    },
  });
  expect((await look(ada)).isError).toBe(false);
});

test("uploads are limited per caller", async () => {
  const site = await startAsking({
    uploads: { limits: { files: { perPrincipal: 1 } } },
    sluice: { onError() {} },
  });
  const send = async (token: string) => {
    const client = await connectSender("SDK v2, modern", site.url, {
      token,
      onFilesRequested: () => ({ action: "accept", files: { picture: [sunsetBlob] } }),
    });
    return look(client).then(
      ({ isError }) => !isError,
      () => false,
    );
  };
  expect(await send("ada-token")).toBe(true);
  expect(await send("ada-token")).toBe(false);
  expect(await send("eve-token")).toBe(true);
});

test("the principal asked and what came are on record, without names of files [SEP-1306/security/should-log] [SEP-1306/privacy/should-guard-logs] [SEP-1306/security/should-store-safely]", async () => {
  const records: AuditRecord[] = [];
  const site = await startAsking({ sluice: { audit: (record) => void records.push(record) } });
  let keptBefore: string[] = [];
  const client = await literal("SDK v2, modern", site, {
    async answer(question) {
      const { url } = question.uploadEndpoints["picture"]!;
      await postForm(url, [sunsetFile], "ada-token");
      keptBefore = await bytesKept(site.received);
      // there is no way to read what was not confirmed: what the endpoint tells is what it is
      const headers = { authorization: "Bearer ada-token" };
      const told = (await (await fetch(url, { headers })).json()) as { files: object[] };
      const { uploadId } = question.uploadEndpoints["picture"]!;
      expect(told).toMatchObject({ uploadId, files: [named] });
      expect(JSON.stringify(told).length).toBeLessThan(1_000);
      const [fileId] = keptBefore.map((key) => /[\w-]{32}$/.exec(key)![0]);
      expect((await fetch(`${url}/${fileId}`, { headers })).status).toBe(405);
      return accept(question, named);
    },
  });
  await look(client);
  expect(keptBefore).toHaveLength(1);
  expect(keptBefore.join()).not.toContain("sunset");
  const steps = records.filter(({ action }) => action === "upload");
  expect(steps.length).toBeGreaterThanOrEqual(3);
  expect(new Set(steps.map(({ principal }) => principal)).size).toBe(1);
  expect(steps.some(({ bytes }) => bytes === sunset.length)).toBe(true);
  expect(JSON.stringify(records)).not.toContain("sunset");
});
