import { describe, expect, test } from "vitest";
import { sendFaultOf } from "../src/upstream/send-fault.ts";
import { wordsOf } from "../src/messages/error-words.ts";
import { toolFault } from "../src/tools/tool-answer.ts";

const caused = (message: string, cause: string) =>
  new TypeError(message, { cause: new Error(cause) });

describe("an error is told once:", () => {
  test.each`
    error                                                  | words
    ${new Error("bridge: cannot run a: is it installed?")} | ${"cannot run a: is it installed?"}
    ${new Error("MCP error -32602: MCP error -32602: no")} | ${"MCP error -32602: no"}
    ${new Error("a: b: b")}                                | ${"a: b"}
    ${new Error("a: b: a")}                                | ${"a: b: a"}
    ${"plain"}                                             | ${"plain"}
  `("$error", ({ error, words }) => {
    expect(wordsOf(error)).toBe(words);
  });

  test.each`
    error                                    | reason
    ${caused("fetch failed", "read ECONN")}  | ${"fetch failed (read ECONN)"}
    ${caused("read ECONN", "read ECONN")}    | ${"read ECONN"}
    ${caused("x: read ECONN", "read ECONN")} | ${"x: read ECONN"}
    ${caused("fetch failed", "")}            | ${"fetch failed"}
  `("$error of fetch", ({ error, reason }) => {
    expect(sendFaultOf(error, false)).toMatchObject({ reason });
  });

  test.each`
    cause                  | text
    ${"The disk is full."} | ${"it failed; probable cause: The disk is full."}
    ${"it failed."}        | ${"it failed"}
    ${undefined}           | ${"it failed"}
  `("a tool's fault with the cause $cause", ({ cause, text }) => {
    expect(toolFault(new Error("it failed"), cause)).toMatchObject({ content: [{ text }] });
  });
});
