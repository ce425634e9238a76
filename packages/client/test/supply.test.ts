import { expect, test } from "vitest";
import { settingsOf } from "../src/download/stream-options.ts";
import { createSupply } from "../src/download/supply.ts";

test("a spent permit is renewed by one call, however many connections notice", async () => {
  let calls = 0;
  const client = {
    request: async () => ({ uri: "x://a", downloadUrl: `https://cdn.example.com/${++calls}` }),
  };
  const settings = settingsOf({ trustedOrigins: ["https://cdn.example.com"] });
  const supply = createSupply(client, "x://a", settings, () => expect.unreachable());
  supply.spend(await supply.permit());
  const permits = await Promise.all([1, 2, 3].map(() => supply.permit()));
  expect(calls).toBe(2);
  expect(new Set(permits).size).toBe(1);
});
