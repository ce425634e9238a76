import { describe, expect, test } from "vitest";
import { createHouse } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const open = { principal: () => ({ issuer: "i", subject: "s", clientId: "c" }) };

describe.each(eras)("%s era", (era) => {
  test.each([
    ["resources/read", {}, "uri: must be a string"],
    ["resources/read", { uri: 5 }, "uri: must be a string"],
    ["resources/stream", {}, "uri: must be a string"],
    ["resources/list", { cursor: 5 }, "cursor: must be a string"],
    ["resources/templates/list", { cursor: 5 }, "cursor: must be a string"],
  ])("%s with %j is -32602, in a sentence", async (method, params, sentence) => {
    const house = createHouse(open);
    const { message } = await talkTo(house.sluice)(era, method, { params });
    expect(message.error).toMatchObject({ code: -32602 });
    expect(message.error!.message).toBe(`Invalid params for ${method}: ${sentence}`);
    expect(house.errors).toEqual([]);
  });
});
