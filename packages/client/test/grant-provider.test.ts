import { expect, test } from "vitest";
import { settingsOf } from "../src/download/stream-options.ts";
import { grantsOf } from "../src/download/grant-provider.ts";

test("a spent grant is renewed by one call, however many connections notice", async () => {
  let calls = 0;
  const client = {
    request: async () => ({ uri: "x://a", downloadUrl: `https://cdn.example.com/${++calls}` }),
  };
  const settings = settingsOf({ trustedOrigins: ["https://cdn.example.com"] });
  const grants = grantsOf(client, "x://a", settings, () => expect.unreachable());
  grants.spend(await grants.grant());
  const renewed = await Promise.all([1, 2, 3].map(() => grants.grant()));
  expect(calls).toBe(2);
  expect(new Set(renewed).size).toBe(1);
});

test.each([[["public-https"]], [[]]])(
  "with trustedOrigins %j a server names no address elsewhere: only its redirects may lead there",
  async (trustedOrigins) => {
    const client = {
      request: async () => ({ uri: "x://a", downloadUrl: "https://cdn.example.com/1" }),
    };
    const settings = settingsOf({ trustedOrigins });
    const grants = grantsOf(client, "x://a", settings, () => expect.unreachable());
    await expect(grants.grant()).rejects.toMatchObject({ code: "untrusted" });
  },
);

test("one origin is a list of one", () => {
  const trustedOrigins = "https://cdn.example.com" as never;
  expect(() => settingsOf({ trustedOrigins })).toThrow(/is not an origin/);
});
