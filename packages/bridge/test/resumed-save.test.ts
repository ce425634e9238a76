import { mkdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { expect, test } from "vitest";
import {
  leaveHalf,
  literalResult,
  type LiteralResource,
  sendLiteral,
} from "../../client/test/half-saved.ts";
import { callTool, handWritten, hostOf, makeFolders } from "./filing.ts";

const content = Buffer.alloc(3_000_000, "0123456789 and so on / ");
const keptBytes = 2_000_000;

/** What is saved, and the path that the model names for it. */
const cases: readonly (readonly [string, string | undefined, string])[] = [
  ["resource", undefined, "big.bin"],
  ["resource", "in/", "in/big.bin"],
  ["resource", "in/copy.bin", "in/copy.bin"],
  ["link", undefined, "big.bin"],
  ["link", "in/copy.bin", "in/copy.bin"],
];

test.each(cases)(
  "a save of a %s to %s that is resumed requests only what is missing",
  async (kind, path, saved) => {
    const { save } = makeFolders();
    const isLink = kind === "link";
    const ranges: LiteralResource["ranges"] = [];
    const resource = (): LiteralResource => ({ uri, content, etag: '"1"', ranges });
    const url: URL = await handWritten(
      ({ method, params }) =>
        isLink ? undefined : literalResult(method, params, new URL("/d/big.bin", url)),
      (request, response) => sendLiteral(resource(), request, response),
      !isLink,
    );
    const uri = isLink ? new URL("/d/big.bin", url).href : "x://a/big.bin";
    const target = join(save, saved);
    mkdirSync(dirname(target), { recursive: true });
    await leaveHalf(dirname(target), basename(target), resource(), keptBytes);
    const client = await hostOf(url, { saveTo: save });
    const { facts, text } = await callTool(client, "save_resource", {
      uri,
      ...(path !== undefined && { path }),
    });
    expect(facts, text).toMatchObject({ path: target, resumed_bytes: keptBytes });
    expect(ranges).toEqual([`bytes=${keptBytes}-`]);
    expect(readFileSync(target).equals(content)).toBe(true);
  },
);
