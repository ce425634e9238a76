import { createKeyRing, formatKey, generateKey, SluiceError, type Principal } from "@sluice/core";
import { describe, expect, test, vi } from "vitest";
import { QuestionStates, type QuestionContext } from "../src/ask/elicit-state.ts";
import { createPlainSluice } from "./asking.ts";

const ada: Principal = { issuer: "test", subject: "ada", clientId: "test" };
const eve: Principal = { ...ada, subject: "eve" };
const context: QuestionContext = {
  principal: ada,
  message: "A picture, please",
  fields: { picture: { type: "file" } },
};
const state = {
  expiresAt: Date.now() + 60_000,
  slots: { picture: { uploadId: "a".repeat(32), expiresAt: 9e12 } },
};
const refused = (code: string) => expect.objectContaining({ name: "SluiceError", code });

describe("the state that a client keeps for a question", () => {
  const { host } = createPlainSluice();
  const states = new QuestionStates(host);

  test("comes back as it was", async () => {
    expect(await states.open(states.seal(state, context), context)).toEqual(state);
    const onPage = { ...state, pageId: "b".repeat(32) };
    expect(await states.open(states.seal(onPage, context), context)).toEqual(onPage);
  });

  test("shows nothing of what is in it", () => {
    const sealed = states.seal(state, context);
    expect(sealed).not.toContain("aaaa");
    expect(Buffer.from(sealed.slice(3), "base64url").includes("aaaa")).toBe(false);
  });

  test("is refused with any character changed", async () => {
    const sealed = states.seal(state, context);
    for (const at of [0, 3, 10, sealed.length >> 1, sealed.length - 2]) {
      const other = sealed[at] === "A" ? "B" : "A";
      const altered = sealed.slice(0, at) + other + sealed.slice(at + 1);
      await expect(states.open(altered, context)).rejects.toEqual(refused("invalid_argument"));
    }
    for (const none of [undefined, 7, "", "k1."])
      await expect(states.open(none, context)).rejects.toEqual(refused("invalid_argument"));
    // none of that used it up
    expect(await states.open(sealed, context)).toEqual(state);
  });

  test("is refused from another principal, for another question and under other keys", async () => {
    const sealed = states.seal(state, context);
    const others: QuestionContext[] = [
      { ...context, principal: eve },
      { ...context, principal: undefined },
      { ...context, message: "Your passport, please" },
      { ...context, fields: { picture: { type: "file", accept: ["image/*"] } } },
    ];
    for (const other of others)
      await expect(states.open(sealed, other)).rejects.toEqual(refused("invalid_argument"));
    const keys = createKeyRing(formatKey(generateKey()));
    const foreign = new QuestionStates({ ...host, keys }).seal(state, context);
    await expect(states.open(foreign, context)).rejects.toEqual(refused("invalid_argument"));
  });

  test("is refused when it comes a second time, also to another process with the same store", async () => {
    const sealed = states.seal(state, context);
    const elsewhere = new QuestionStates(host);
    const outcomes = await Promise.allSettled([
      states.open(sealed, context),
      elsewhere.open(sealed, context),
      states.open(sealed, context),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
    await expect(states.open(sealed, context)).rejects.toEqual(refused("invalid_argument"));
  });

  test("is refused after its time", async () => {
    const sealed = states.seal(state, context);
    vi.spyOn(Date, "now").mockReturnValue(state.expiresAt);
    try {
      await expect(states.open(sealed, context)).rejects.toEqual(refused("expired"));
    } finally {
      vi.restoreAllMocks();
    }
  });

  test("is not taken where the store cannot say whether it was used", async () => {
    const put = () => Promise.reject(new SluiceError("unavailable", "store: down"));
    const cut = new QuestionStates({
      ...host,
      stores: { ...host.stores, state: { ...host.stores.state, put } },
    });
    await expect(cut.open(cut.seal(state, context), context)).rejects.toEqual(
      refused("unavailable"),
    );
  });
});
