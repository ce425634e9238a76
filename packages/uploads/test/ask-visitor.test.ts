// Pages that a visitor of the server's own site gets, without any tool.
import { expect, onTestFinished, test } from "vitest";
import { startPageSite } from "./page-site.ts";

const request = { message: "Your file, please", fields: { file: { type: "file" } } } as const;

async function startSite(maxRequests: number) {
  const counts = { global: 0 };
  const consume = async (_key: string, points: number): Promise<void> => {
    counts.global += points;
    // what rate-limiter-flexible rejects with
    if (counts.global > maxRequests)
      throw Object.assign(new Error("limit"), { msBeforeNext: 2_000 });
  };
  const site = await startPageSite({ sluice: { rates: { requests: { global: { consume } } } } });
  onTestFinished(() => site[Symbol.asyncDispose]());
  const ended = new AbortController();
  onTestFinished(() => ended.abort());
  const ask = async (): Promise<string> => {
    const caller = { header: () => undefined };
    const page = await site.uploads.askVisitor(request, { caller, signal: ended.signal });
    page.outcome.catch(() => {});
    return page.url;
  };
  return { ask, counts };
}

test("a page for a visitor counts as one request", async () => {
  const { ask, counts } = await startSite(10);
  expect(await ask()).toMatch(/\/mcp\/upload-page\//);
  expect(counts.global).toBe(1);
});

test("a visitor beyond the rate gets no page, and is told when to come back", async () => {
  const { ask } = await startSite(1);
  await ask();
  await expect(ask()).rejects.toMatchObject({ code: "throttled", retryAfterMs: 2_000 });
});
