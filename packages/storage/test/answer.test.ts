import { SluiceError } from "@sluice/core";
import { type BytesAnswer, publishOnce, readExtent, repeaterOf } from "@sluice/storage/plugin";
import { describe, expect, test } from "vitest";
import { failure } from "./scripted-backend.ts";

const operation = 'test: open "a"';
const whole: BytesAnswer = {
  status: 200,
  contentLength: 100,
  contentType: "application/pdf",
  etag: '"1"',
};
const part: BytesAnswer = {
  ...whole,
  status: 206,
  contentLength: 40,
  contentRange: "bytes 60-99/100",
};
const described = { size: 100, contentType: "application/pdf" };
const range = { start: 60 };

describe("an answer with bytes", () => {
  test("is read where it proves that it is the object", () => {
    const all = { size: 100, sent: { start: 0, end: 100 } };
    const { etag: _, ...unmarked } = whole;
    expect(readExtent(whole, { operation })).toEqual(all);
    // the length agrees with the earlier one
    expect(readExtent({ ...unmarked, etag: undefined }, { operation, described })).toEqual(all);
    // a service whose descriptions lag behind
    expect(readExtent(whole, { operation, described: { size: 99 } })).toEqual(all);
    // a service that ignores ranges
    expect(readExtent(whole, { operation, range })).toEqual(all);
    const rest = { size: 100, sent: { start: 60, end: 100 } };
    expect(readExtent(part, { operation, range, described })).toEqual(rest);
    const page = { ...whole, contentType: "Text/HTML; charset=utf-8" };
    const ownPage = { size: 100, contentType: "text/html" };
    expect(readExtent(page, { operation, described: ownPage })).toEqual(all);
  });

  test.each<[string, BytesAnswer, object]>([
    ["it has no length", { ...whole, contentLength: undefined }, { described }],
    ["it has no length that is one", { ...whole, contentLength: Number.NaN }, {}],
    ["nothing else describes it, and it names no version", { ...whole, etag: undefined }, {}],
    [
      "it is shorter and names no version",
      { ...whole, contentLength: 86, etag: undefined },
      { described },
    ],
    ["it is a page", { ...whole, contentType: "text/html" }, { described }],
    ["it is JSON", { ...whole, contentType: "application/problem+json" }, { described }],
    ["it is a part and names no version", { ...part, etag: undefined }, { range, described }],
    ["it is another success", { ...whole, status: 202 }, { described }],
  ])("status 200 alone proves nothing: %s", (_, answer, asked) => {
    expect(() => readExtent(answer, { operation, ...asked })).toThrow(
      expect.objectContaining({ code: "unavailable" }) as SluiceError,
    );
  });

  test.each(["bytes 59-98/100", "bytes 60-98/100", "bytes 60-99/101", "bytes 60-99/*", undefined])(
    "is corrupt if it has another range than requested: %s",
    (contentRange) => {
      expect(() => readExtent({ ...part, contentRange }, { operation, range })).toThrow(
        expect.objectContaining({ code: "corrupt" }) as SluiceError,
      );
    },
  );
});

describe("an object that is published once", () => {
  const refused = failure("precondition_failed");
  const lost = failure("unavailable");

  /** Publishes with these outcomes, one for each try; gives how often the object was looked up. */
  async function publish(outcomes: readonly (SluiceError | "new")[], found: string | undefined) {
    const left = [...outcomes];
    let looks = 0;
    const repeat = repeaterOf({
      async repeat(send) {
        for (;;) {
          try {
            return await send();
          } catch (error) {
            if (!(error as SluiceError).retryable || left.length === 0) throw error;
          }
        }
      },
    });
    const made = publishOnce<string | undefined>(
      repeat,
      async () => {
        const outcome = left.shift();
        if (SluiceError.is(outcome)) throw outcome;
        return outcome;
      },
      async () => {
        looks++;
        return found;
      },
    );
    return { made: await made.catch((error: unknown) => error), looks: () => looks };
  }

  test.each([
    ["at once", ["new"], "mine", "new", 0],
    ["refused at once: nothing of ours can be there", [refused], "mine", refused, 0],
    ["after a pause", [failure("throttled"), refused], "mine", refused, 0],
    ["lost, and made", [lost, refused], "mine", "mine", 1],
    ["lost, and another's", [lost, refused], undefined, refused, 1],
    ["lost again and again", [lost, lost, refused], "mine", "mine", 1],
    ["lost before it arrived", [lost, "new"], undefined, "new", 0],
  ] as const)("%s", async (_, outcomes, found, expected, expectedLooks) => {
    const { made, looks } = await publish(outcomes, found);
    expect(made).toBe(expected);
    expect(looks()).toBe(expectedLooks);
  });
});
