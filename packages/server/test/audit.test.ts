import { expect, test } from "vitest";
import { createHouse } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const events = process.env["SLUICE_DEEP"] ? 10_000 : 224;
// oxlint-disable-next-line no-control-regex -- finding control characters is the point
const control = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

const hostile = [
  'a.bin\n{"outcome":"complete"}',
  "a\r\nb",
  "\u0000",
  "\u001b[2J",
  "\u0085",
  "\u009b31m",
  "\u2028",
  "\u2029",
  "\ud800",
  "%0a%0d",
  "x".repeat(100_000),
  "..",
  "",
  "a.bin",
];

test(
  "each call and each redemption is a record or counted in one, without control characters, whatever was asked for",
  { timeout: 600_000 },
  async () => {
    const house = createHouse({ anonymous: true });
    const call = talkTo(house.sluice);
    for (let n = 0; n < events; n++) {
      const name = hostile[n % hostile.length]!;
      if (n % 4 > 1) {
        await house.redeem(name, { headers: { authorization: `x\n${name} y` } });
        continue;
      }
      const params = { uri: `files://demo/${name}` };
      const { slot } = await call(eras[n % 2]!, "resources/stream", {
        params,
        headers: { "mcp-name": "-" },
      });
      slot.reply?.transfer?.end({ outcome: "complete", bytes: 10 });
    }
    await house.sluice.close();
    const counted = house.records.reduce((sum, { count = 1 }) => sum + count, 0);
    expect(counted).toBe(events);
    for (const record of house.records) {
      for (const value of Object.values(record)) expect(String(value)).not.toMatch(control);
      expect(JSON.stringify(record).length).toBeLessThan(5_000);
    }
    expect(new Set(house.records.map(({ outcome }) => outcome))).toContain("complete");
  },
);
