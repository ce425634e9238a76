import { expect, test } from "vitest";
import type { PageQuestion, UploadPages } from "../src/page/upload-pages.ts";
import {
  connectAnswerer,
  createAsker,
  createFakeSlots,
  createPlainSluice,
  createToolServer,
  eras,
  type AnswererOptions,
} from "./asking.ts";

const sunset = { name: "sunset.jpg", size: 2_097_152, mimeType: "image/jpeg" };

/** A page that answers as the test says, after being asked `patience` times. */
function createPages(answer: (question: PageQuestion) => unknown, patience = 0) {
  const questions = new Map<string, PageQuestion>();
  const outcomes: string[] = [];
  let asked = 0;
  const pages: UploadPages = {
    async pageUrl(question) {
      questions.set(question.pageId, question);
      return `http://127.0.0.1:9/mcp/uploads/page/${question.pageId}`;
    },
    urlOf: (pageId) => `http://127.0.0.1:9/mcp/uploads/page/${pageId}`,
    async answerOf(pageId) {
      asked += 1;
      return asked > patience ? answer(questions.get(pageId)!) : undefined;
    },
    async conclude(_pageId, outcome) {
      outcomes.push(outcome);
    },
    statusOf: async () => "open",
  };
  return { pages, questions, outcomes, timesAsked: () => asked };
}

function setUp(answer: (question: PageQuestion) => unknown, patience?: number) {
  const sluice = createPlainSluice();
  const slots = createFakeSlots();
  const reserved: unknown[] = [];
  const watched = {
    ...slots,
    reserve(...[principal, terms, options]: Parameters<typeof slots.reserve>) {
      reserved.push(options);
      return slots.reserve(principal, terms, options);
    },
  };
  const { pages, questions, outcomes, timesAsked } = createPages(answer, patience);
  const ask = createAsker(sluice, watched, pages);
  const fetch = createToolServer(sluice, async (mcp, ctx) => {
    const fields = { picture: { type: "file" }, note: { type: "string" } } as const;
    const outcome = await ask({ message: "A picture, please", fields }, { mcp, ctx });
    if (outcome.action === "ask") return outcome.result;
    return { content: [{ type: "text", text: JSON.stringify(outcome) }] };
  });
  return { slots, fetch, questions, outcomes, reserved, timesAsked };
}

async function look(options: AnswererOptions) {
  const client = await connectAnswerer({ capabilities: { elicitation: { url: {} } }, ...options });
  const result = await client.callTool({ name: "look", arguments: {} });
  const [content] = result.content as { text: string }[];
  return { text: content!.text, isError: result.isError === true };
}

test.each(eras)("%s: a client without files of its own gets the page", async (era) => {
  const { slots, fetch, questions, outcomes, reserved } = setUp(({ question }) => {
    const { uploadId } = question.uploadEndpoints["picture"]!;
    slots.came.set(uploadId, [sunset]);
    return { action: "accept", content: { picture: { ...sunset, uploadId }, note: "At the sea" } };
  }, 2);
  const asked: unknown[] = [];
  const { text } = await look({
    era,
    fetch,
    answer(question) {
      asked.push(question);
      return { action: "accept" };
    },
  });
  expect(JSON.parse(text)).toMatchObject({
    action: "accept",
    files: { picture: sunset },
    values: { note: "At the sea" },
  });
  const [pageId] = questions.keys();
  expect(pageId).toMatch(/^[\w-]{32}$/);
  expect(asked).toEqual([
    expect.objectContaining({
      mode: "url",
      message: "A picture, please",
      url: `http://127.0.0.1:9/mcp/uploads/page/${pageId}`,
    }),
  ]);
  // the page says that all is done when the tool has the files
  expect(outcomes).toEqual(["accepted"]);
  // a browser has no bearer token
  expect(reserved).toEqual([{ ttlMs: 900_000, selfAuthenticating: true, share: "" }]);
});

test.each(eras)("%s: a user that will not open the page has sent nothing", async (era) => {
  for (const action of ["decline", "cancel"]) {
    const { slots, fetch, outcomes } = setUp(() => expect.unreachable("no page"), Infinity);
    const { text } = await look({ era, fetch, answer: () => ({ action }) });
    expect(JSON.parse(text)).toEqual({ action });
    expect(slots.revoked).toHaveLength(1);
    expect(outcomes).toEqual(["cancelled"]);
  }
});

test.each(eras)("%s: what the page says is believed no more than a client", async (era) => {
  const { slots, fetch, outcomes } = setUp(({ question }) => {
    const { uploadId } = question.uploadEndpoints["picture"]!;
    slots.came.set(uploadId, [sunset]);
    return { action: "accept", content: { picture: { ...sunset, uploadId, size: 1 } } };
  });
  const { text, isError } = await look({ era, fetch, answer: () => ({ action: "accept" }) });
  expect(isError).toBe(true);
  expect(text).toMatch(/not those that came/);
  expect(slots.came.size).toBe(0);
  expect(outcomes).toEqual(["failed"]);
});

test.each(eras)(
  "%s: the page of a call that was given up is told so, and nothing is kept",
  async (era) => {
    const { slots, fetch, outcomes, timesAsked } = setUp(
      () => expect.unreachable("nothing was answered"),
      Infinity,
    );
    const client = await connectAnswerer({
      era,
      fetch,
      capabilities: { elicitation: { url: {} } },
      answer: () => ({ action: "accept" }),
    });
    const giveUp = new AbortController();
    const call = client.callTool({ name: "look", arguments: {} }, { signal: giveUp.signal });
    await expect.poll(timesAsked).toBeGreaterThan(0);
    giveUp.abort();
    await expect(call).rejects.toThrow(/abort/i);
    await expect.poll(() => outcomes).toEqual(["cancelled"]);
    expect(slots.revoked).toHaveLength(1);
  },
);

test("legacy: the client is told when the user is done", async () => {
  const { slots, fetch, questions } = setUp(() => ({ action: "decline" }));
  const told: unknown[] = [];
  const client = await connectAnswerer({
    era: "legacy",
    fetch,
    capabilities: { elicitation: { url: {} } },
    answer: () => ({ action: "accept" }),
  });
  client.setNotificationHandler("notifications/elicitation/complete", ({ params }) => {
    told.push(params);
  });
  await client.callTool({ name: "look", arguments: {} });
  expect(told).toEqual([{ elicitationId: [...questions.keys()][0] }]);
  expect(slots.revoked).toHaveLength(1);
});

test("legacy: a client that agrees only when it hears that the user is done is told of the page's answer", async () => {
  const { slots, fetch } = setUp(() => ({ action: "decline" }), 3);
  let hearOfEnd: (() => void) | undefined;
  const ended = new Promise<void>((resolve) => void (hearOfEnd = resolve));
  const client = await connectAnswerer({
    era: "legacy",
    fetch,
    capabilities: { elicitation: { url: {} } },
    answer: async () => {
      await ended;
      return { action: "accept" };
    },
  });
  client.setNotificationHandler("notifications/elicitation/complete", () => hearOfEnd?.());
  const { content } = await client.callTool({ name: "look", arguments: {} });
  expect(content).toEqual([{ type: "text", text: '{"action":"decline"}' }]);
  expect(slots.revoked).toHaveLength(1);
});

test("modern: a client that sends files itself is not sent to the page", async () => {
  const { slots, fetch } = setUp(() => expect.unreachable("no user is on the page"));
  const { isError } = await look({
    era: "modern",
    fetch,
    capabilities: { elicitation: { url: {}, binary: {} } },
    answer(asked) {
      expect(asked.mode).toBe("binary");
      const { uploadId } = asked.uploadEndpoints!["picture"]!;
      slots.came.set(uploadId, [sunset]);
      return { action: "accept", content: { picture: { ...sunset, uploadId } } };
    },
  });
  expect(isError).toBe(false);
});
