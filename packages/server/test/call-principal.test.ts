import { isDeepStrictEqual } from "node:util";
import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { alice, as, createHouse, type House } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const uri = "files://demo/a.txt";

/** A server whose tool says who its caller is, and what storage was asked for in that call. */
function asking(options: Partial<SluiceOptions> = {}) {
  const got: (Principal | undefined)[] = [];
  const files = createMemoryBackend({ "a.txt": "hello" });
  const storage = (user: Principal | undefined) => {
    got.push(user);
    return files;
  };
  const house = createHouse({ storage, ...options } as Partial<SluiceOptions>);
  const told: (Principal | undefined)[] = [];
  const talk = talkTo(house.sluice, (mcp) => {
    mcp.registerTool("who", {}, async (ctx) => {
      told.push(await house.sluice.principal({ mcp, ctx }));
      got.length = 0;
      await house.sluice.resourceLink(uri, { mcp, ctx });
      return { content: [] };
    });
  });
  return { ...house, talk, told, got };
}

describe.each(eras)("the principal of a tool's caller in the %s era", (era) => {
  const who = { name: "who", arguments: {} };

  test("is the one that storage gets, with its claims", async () => {
    const claims = { role: "doctor" };
    const { talk, told, got } = asking({ principal: () => ({ ...alice, claims }) });
    await talk(era, "tools/call", { params: who });
    expect(told).toEqual([{ ...alice, claims }]);
    expect(isDeepStrictEqual(got.at(-1), told[0])).toBe(true);
  });

  test("is undefined for the anonymous", async () => {
    const { talk, told, got } = asking({ anonymous: true });
    await talk(era, "tools/call", { params: who });
    expect([told, got.at(-1)]).toEqual([[undefined], undefined]);
  });

  const failing = async (house: House & { talk: ReturnType<typeof talkTo> }, headers = {}) => {
    const { message } = await house.talk(era, "tools/call", { params: who, headers });
    return message.result;
  };

  test("is refused to a caller that is unknown, as its files are", async () => {
    const house = asking();
    expect(await failing(house)).toEqual(
      expect.objectContaining({
        isError: true,
        content: [{ type: "text", text: "caller: Not permitted" }],
      }),
    );
    expect((await failing(house, as(alice))).isError).toBeUndefined();
  });

  test("says nothing of a fault of the resolver, which onError gets", async () => {
    const fault = new Error("password of the directory");
    const principal = () => Promise.reject(fault);
    const house = asking({ principal });
    const { content } = await failing(house);
    expect(content[0].text).toBe("caller: Not possible at the moment: try again later");
    expect(house.errors).toEqual([fault]);
  });

  test("is not told on a server of another Sluice", async () => {
    const other = createSluice({ storage: createMemoryBackend() });
    let rejection: unknown;
    const { sluice } = asking();
    const talk = talkTo(sluice, (mcp) => {
      mcp.registerTool("who", {}, async (ctx) => {
        rejection = await other.principal({ mcp, ctx }).catch((error: unknown) => error);
        return { content: [] };
      });
    });
    await talk(era, "tools/call", { params: who });
    expect(rejection).toBeInstanceOf(TypeError);
    expect(rejection).toHaveProperty("message", expect.stringContaining("another Sluice"));
  });
});

test.each<[string, object | undefined]>([
  ["nothing", undefined],
  ["no context", { mcp: {} }],
  ["no server", { ctx: {} as ServerContext }],
])("a call for the principal with %s rejects with what to pass", async (_, call) => {
  const { sluice } = createHouse();
  await expect(sluice.principal(call as { mcp: McpServer; ctx: ServerContext })).rejects.toThrow(
    /^mcp must be the server .* ctx what it was called with/,
  );
});
