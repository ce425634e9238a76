import type { Client } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import type { FileRequest } from "../src/ask/ask-for-files.ts";
import type { Fields } from "../src/elicitation/fields.ts";
import { uploadError } from "../src/slots/upload-error.ts";
import {
  createAsker,
  connectAnswerer,
  createFakeSlots,
  createPlainSluice,
  createToolServer,
  eras,
  type AnswererOptions,
  type Asked,
} from "./asking.ts";

const sunset = { name: "sunset.jpg", size: 2_097_152, mimeType: "image/jpeg" };
const fields = {
  picture: { type: "file", accept: ["image/*"], maxBytes: 5_242_880 },
  note: { type: "string", maxLength: 20 },
} as const satisfies Fields;

/** A tool that asks for a picture and says what it got. */
function setUp(options: { request?: Partial<FileRequest> } = {}) {
  const sluice = createPlainSluice();
  const slots = createFakeSlots();
  const ask = createAsker(sluice, slots);
  const fetch = createToolServer(sluice, async (mcp, ctx) => {
    const request = { message: "A picture, please", fields, ...options.request };
    const outcome = await ask(request, { mcp, ctx });
    if (outcome.action === "ask") return outcome.result;
    return { content: [{ type: "text", text: JSON.stringify(outcome) }] };
  });
  return { slots, fetch };
}

async function look(client: Client): Promise<{ text: string; isError: boolean }> {
  const result = await client.callTool({ name: "look", arguments: {} });
  const [content] = result.content as { text: string }[];
  return { text: content!.text, isError: result.isError === true };
}

const bodyOf = (init: RequestInit | undefined) => (typeof init?.body === "string" ? init.body : "");

/** Puts a file where it was asked for, and names it in the answer. */
function upload(slots: ReturnType<typeof createFakeSlots>, asked: Asked, name = "picture") {
  const { uploadId } = asked.uploadEndpoints![name]!;
  slots.came.set(uploadId, [sunset]);
  return { ...sunset, uploadId };
}

test.each(eras)("%s: files of an accepted answer are handed to the tool", async (era) => {
  const { slots, fetch } = setUp();
  let asked: Asked | undefined;
  const client = await connectAnswerer({
    era,
    fetch,
    answer(question) {
      asked = question;
      const picture = upload(slots, question);
      return { action: "accept", content: { picture, note: "At the sea" } };
    },
  });
  const { text } = await look(client);
  const outcome = JSON.parse(text);
  expect(outcome).toMatchObject({
    action: "accept",
    files: { picture: { ...sunset, scan: "clean" } },
    values: { note: "At the sea" },
  });
  expect(slots.revoked).toEqual([]);
  expect(asked).toMatchObject({
    mode: "binary",
    message: "A picture, please",
    requestedSchema: {
      type: "object",
      properties: {
        picture: { type: "file", accept: ["image/*"], maxSize: 5_242_880, required: true },
        note: { type: "string", maxLength: 20 },
      },
      required: ["picture"],
    },
    uploadEndpoints: { picture: { method: "POST" } },
  });
});

test.each(eras)("%s: a user who says no leaves nothing behind", async (era) => {
  for (const action of ["decline", "cancel"]) {
    const { slots, fetch } = setUp();
    let uploadId: string | undefined;
    const answer: AnswererOptions["answer"] = (asked) => {
      ({ uploadId } = upload(slots, asked));
      return { action };
    };
    const client = await connectAnswerer({ era, fetch, answer });
    expect(await look(client)).toEqual({ text: JSON.stringify({ action }), isError: false });
    expect(slots.revoked).toEqual([uploadId]);
  }
});

const wrong: readonly [string, (picture: object) => object, RegExp][] = [
  ["another upload id", (picture) => ({ picture: { ...picture, uploadId: "x" } }), /upload id/],
  [
    "a size that disagrees",
    (picture) => ({ picture: { ...picture, size: 1 } }),
    /not those that came/,
  ],
  [
    "a name that disagrees",
    (picture) => ({ picture: { ...picture, name: "b" } }),
    /not those that came/,
  ],
  ["no file where one is required", () => ({ note: "x" }), /"picture": is required/],
  ["several files where one is wanted", (picture) => ({ picture: [picture] }), /must be one file/],
  ["a file without a size", () => ({ picture: { name: "a" } }), /name, size, mimeType/],
  [
    "a file that is too large",
    (picture) => ({ picture: { ...picture, size: 6_000_000 } }),
    /at most 5242880/,
  ],
  ["a value of another type", (picture) => ({ picture, note: 7 }), /"note"/],
  ["a value that is too long", (picture) => ({ picture, note: "x".repeat(21) }), /"note"/],
  [
    "a field that was not asked for",
    (picture) => ({ picture, more: 1 }),
    /"more": was not asked for/,
  ],
];

test.each(eras)(
  "%s: an answer that does not agree is refused, and nothing is kept",
  async (era) => {
    for (const [, contentOf, message] of wrong) {
      const { slots, fetch } = setUp();
      let uploadId: string | undefined;
      const answer: AnswererOptions["answer"] = (asked) => {
        const picture = upload(slots, asked);
        ({ uploadId } = picture);
        return { action: "accept", content: contentOf(picture) };
      };
      const client = await connectAnswerer({ era, fetch, answer });
      const { text, isError } = await look(client);
      expect(text).toMatch(message);
      expect(isError).toBe(true);
      expect(slots.revoked).toEqual([uploadId]);
      expect(slots.came.size).toBe(0);
    }
  },
);

test.each(eras)("%s: one file that disagrees takes those that agreed with it", async (era) => {
  const request = { fields: { one: { type: "file" }, two: { type: "file" } } } as const;
  const { slots, fetch } = setUp({ request });
  const answer: AnswererOptions["answer"] = (asked) => {
    const one = upload(slots, asked, "one");
    const two = { ...upload(slots, asked, "two"), size: 3 };
    return { action: "accept", content: { one, two } };
  };
  const client = await connectAnswerer({ era, fetch, answer });
  expect((await look(client)).isError).toBe(true);
  expect(slots.removed).toHaveLength(1);
  expect(slots.came.size).toBe(0);
});

test.each(eras)("%s: several files of one field come as an array", async (era) => {
  const request = {
    fields: {
      documents: { type: "file", multiple: true },
      extra: { type: "file", required: false },
    },
  } as const;
  const { slots, fetch } = setUp({ request });
  const answer: AnswererOptions["answer"] = (asked) => {
    const { uploadId } = asked.uploadEndpoints!["documents"]!;
    const files = [sunset, { ...sunset, name: "dawn.jpg" }];
    slots.came.set(uploadId, files);
    return {
      action: "accept",
      content: { documents: files.map((file) => ({ ...file, uploadId })) },
    };
  };
  const client = await connectAnswerer({ era, fetch, answer });
  const { files } = JSON.parse((await look(client)).text);
  expect(files.documents.map(({ name }: { name: string }) => name)).toEqual([
    "sunset.jpg",
    "dawn.jpg",
  ]);
  expect(files.extra).toBeUndefined();
  // the slot that was not used is closed
  expect(slots.revoked).toHaveLength(1);
});

test.each(eras)("%s: the client's own limit counts where it is smaller", async (era) => {
  const { slots, fetch } = setUp();
  let maxSize: number | undefined;
  const client = await connectAnswerer({
    era,
    fetch,
    capabilities: { elicitation: { form: {}, binary: { maxFileSize: 1_000 } } },
    answer(asked) {
      maxSize = asked.requestedSchema.properties.picture.maxSize;
      return { action: "accept", content: { picture: upload(slots, asked) } };
    },
  });
  expect((await look(client)).text).toMatch(/at most 1000/);
  expect(maxSize).toBe(1_000);
});

test.each(eras)("%s: `binary` alone is enough", async (era) => {
  const { slots, fetch } = setUp();
  const client = await connectAnswerer({
    era,
    fetch,
    capabilities: { elicitation: { binary: {} } },
    answer: (asked) => ({ action: "accept", content: { picture: upload(slots, asked) } }),
  });
  expect((await look(client)).isError).toBe(false);
});

test("legacy: a client that cannot send files gets an error that says what it and the tool must declare", async () => {
  for (const capabilities of [{}, { elicitation: {} }, { elicitation: { form: {} } }]) {
    const { fetch } = setUp();
    const client = await connectAnswerer({ era: "legacy", fetch, capabilities });
    const { text, isError } = await look(client);
    expect(isError).toBe(true);
    expect(text).toMatch(/declares neither `elicitation.binary` nor .* uploadIdInput\(\)/);
  }
});

test("modern: a client that cannot send files gets -32021 with what is missing", async () => {
  for (const capabilities of [{}, { elicitation: {} }, { elicitation: { form: {} } }]) {
    const { fetch } = setUp();
    const client = await connectAnswerer({ era: "modern", fetch, capabilities });
    await expect(look(client)).rejects.toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { elicitation: { binary: {} } } },
    });
  }
});

test("legacy: progress notifications of the client reach the callback", async () => {
  const heard: unknown[] = [];
  const { slots, fetch } = setUp({
    request: { onProgress: ({ progress, total }) => void heard.push([progress, total]) },
  });
  const client = await connectAnswerer({
    era: "legacy",
    fetch,
    async answer(asked, self) {
      const { progressToken } = asked._meta;
      for (const progress of [1_048_576, 2_097_152])
        await self.notification({
          method: "notifications/progress",
          params: { progressToken, progress, total: 2_097_152 },
        });
      return { action: "accept", content: { picture: upload(slots, asked) } };
    },
  });
  expect((await look(client)).isError).toBe(false);
  expect(heard).toEqual([
    [1_048_576, 2_097_152],
    [2_097_152, 2_097_152],
  ]);
});

test("modern: a state is good once, for its principal and its question only", async () => {
  const { slots, fetch } = setUp();
  const sent: { inputResponses: object; requestState: string }[] = [];
  const recording: typeof fetch = async (input, init) => {
    const { params } = JSON.parse(bodyOf(init) || "{}");
    if (params?.requestState) sent.push(params);
    return fetch(input, init);
  };
  const ada = await connectAnswerer({
    era: "modern",
    token: "ada",
    fetch: recording,
    answer: (asked) => ({ action: "accept", content: { picture: upload(slots, asked) } }),
  });
  expect((await look(ada)).isError).toBe(false);
  const [{ inputResponses, requestState }] = sent as [(typeof sent)[0]];

  const again = (client: Client, state: string) =>
    client.callTool({ name: "look", arguments: {}, inputResponses, requestState: state } as never);
  const refused = { code: -32602, data: { reason: "invalid_request_state" } };
  // replayed
  await expect(again(ada, requestState)).rejects.toMatchObject(refused);
  // altered
  await expect(again(ada, `${requestState.slice(0, -2)}AA`)).rejects.toMatchObject(refused);
  // foreign: eve was asked the same question
  const eve = await connectAnswerer({
    era: "modern",
    token: "eve",
    fetch: (input, init) => {
      const body = bodyOf(init);
      const hers = JSON.parse(body || "{}").params?.requestState;
      return fetch(input, hers ? { ...init!, body: body.replace(hers, requestState) } : init);
    },
    answer: (asked) => ({ action: "accept", content: { picture: upload(slots, asked) } }),
  });
  await expect(look(eve)).rejects.toMatchObject(refused);
  expect(slots.confirmed.size).toBe(1);
});

test.each(eras)("%s: a scanner that does not know yet is asked again", async (era) => {
  const sluice = createPlainSluice();
  const slots = createFakeSlots();
  let patience = 2;
  const confirm: typeof slots.confirm = async (...args) => {
    if (patience-- > 0) throw uploadError("unavailable", "scanning", { retryAfterMs: 5 });
    return slots.confirm(...args);
  };
  const ask = createAsker(sluice, { ...slots, confirm });
  const fetch = createToolServer(sluice, async (mcp, ctx) => {
    const outcome = await ask({ message: "A picture, please", fields }, { mcp, ctx });
    if (outcome.action === "ask") return outcome.result;
    return { content: [{ type: "text", text: outcome.action }] };
  });
  const client = await connectAnswerer({
    era,
    fetch,
    answer: (asked) => ({ action: "accept", content: { picture: upload(slots, asked) } }),
  });
  expect(await look(client)).toEqual({ text: "accept", isError: false });
  expect(patience).toBe(-1);
});
