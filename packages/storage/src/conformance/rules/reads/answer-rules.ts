import assert from "node:assert/strict";
import { withResumedReads } from "../../../wrappers/resumable.ts";
import { withValidation } from "../../../wrappers/validate.ts";
import { expectCode, pattern, readBody } from "../../expect.ts";
import { type Rule, rule } from "../../rule.ts";

const size = 600_000;
const content = pattern(size);
const half = { start: size / 2 };

/** Pages in which services and proxies tell errors. */
const pages = [
  ["text/html; charset=utf-8", "<html><body>An error occurred.</body></html>"],
  ["application/json", '{"error":{"code":"serviceNotAvailable","message":"Try again later."}}'],
] as const;

/** Answers that are not the object, whatever their status says. */
export const answerRules: readonly Rule[] = [
  rule({
    id: "answer-page",
    sentence: "an error page with status 200 is unavailable, even for a part, and none of it comes",
    needs: ["fault.page"],
    async check({ backend, put, faults }) {
      await put("answer.bin", content);
      for (const [type, text] of pages)
        for (const isCounted of [true, false])
          for (const options of [{}, { range: half }]) {
            faults.page({ type, text, isCounted });
            await expectCode(() => backend.open("answer.bin", options), "unavailable");
          }
    },
  }),
  rule({
    id: "answer-unmarked",
    sentence: "a part of a known version whose answer names no version is refused",
    needs: ["fault.validator", "etag"],
    async check({ backend, put, faults }) {
      await put("answer.bin", content);
      const { etag: ifMatch = "" } = await backend.describe("answer.bin");
      faults.validator("none");
      await expectCode(
        () => backend.open("answer.bin", { range: half, ifMatch }),
        "unavailable",
        "precondition_failed",
      );
    },
  }),
  rule({
    id: "answer-remarked",
    sentence: "a broken body does not resume with an answer that names another version",
    needs: ["fault.validator", "fault.reset", "etag"],
    async check({ backend, put, faults }) {
      await put("answer.bin", content);
      faults.reset(300_000);
      const { body } = await withResumedReads(withValidation(backend)).open("answer.bin");
      faults.validator("other");
      await expectCode(async () => {
        const { byteLength } = await readBody(body);
        assert.fail(`${byteLength} bytes came from answers of two versions`);
      }, "precondition_failed");
    },
  }),
];
