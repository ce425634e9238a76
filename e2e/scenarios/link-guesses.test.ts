// Tokens of links that were never given, by the million: nothing opens, and an address that guesses waits.
import { randomBytes } from "node:crypto";
import { Agent, request } from "undici";
import { createSluice, type AuditRecord } from "@sluice/server";
import { createMemoryStores } from "@sluice/state";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { linkTo, startLinkSite } from "../bed/links.ts";
import { send } from "../bed/raw.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.log("links: a million guesses are for SLUICE_DEEP=1");
const guesses = isDeep ? 1_000_000 : 3_000;
const overHttp = isDeep ? 5_000 : 60;

const guess = (): string => randomBytes(24).toString("base64url");

/** Tokens as near to a real one as can be, of all lengths about it. */
function* neighbours(token: string): Generator<string> {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  for (let at = 0; at < token.length; at++)
    for (const letter of letters)
      if (letter !== token[at]) yield token.slice(0, at) + letter + token.slice(at + 1);
  for (let length = 0; length < token.length; length++) yield token.slice(0, length);
  for (const letter of letters) yield token + letter;
  yield token.toLowerCase();
  yield token.toUpperCase();
  yield Array.from(token).toReversed().join("");
}

test(
  `${guesses} guesses open nothing, and links that are there still open`,
  { tags: "slow" },
  async () => {
    const records: AuditRecord[] = [];
    const sluice = createSluice({
      storage: createMemoryBackend({ "plans.bin": "secret plans" }),
      baseUri: "files://site/",
      endpoint: "http://127.0.0.1/mcp",
      keys: "ephemeral",
      anonymous: true,
      links: {},
      stores: createMemoryStores(),
      audit: (record) => void records.push(record),
      onWarning: () => {},
    });
    const caller = { header: () => undefined };
    // enough to find
    const links = await Promise.all(
      Array.from({ length: 300 }, () => sluice.link("files://site/plans.bin", { caller })),
    );
    const tokens = new Set(links.map(({ url }) => url.slice(url.lastIndexOf("/") + 1)));
    expect(tokens.size).toBe(300);
    const [token] = tokens as unknown as [string];

    const open = (tried: string) =>
      sluice.host.redeem({ ...caller, kind: "link", method: "HEAD", token: tried });
    const statuses = new Map<number, number>();
    const count = async (tried: string): Promise<void> => {
      const { status } = await open(tried);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    };
    let near = 0;
    for (const tried of neighbours(token)) {
      near += 1;
      await count(tried);
    }
    for (let n = near; n < guesses; n++) await count(guess());
    expect(statuses).toEqual(new Map([[404, guesses]]));
    for (const kept of tokens) expect((await open(kept)).status).toBe(200);
    // a record for each guess would fill a disk
    expect(records.filter(({ outcome }) => outcome === "denied").length).toBeLessThan(100);
    await sluice.close();
  },
);

test(`${overHttp} guesses over HTTP: after twenty in a minute an address is refused, and no other one`, async () => {
  const records: AuditRecord[] = [];
  await using site = await startLinkSite({
    files: { "plans.bin": "secret plans" },
    sluice: {
      audit: { sink: (record) => void records.push(record), addresses: true },
    },
    limitsGuesses: true,
  });
  const link = await linkTo(site, "plans.bin");
  const dispatcher = new Agent({ connections: 64 });
  const statuses = new Map<number, number>();
  let told = 0;
  await Promise.all(
    Array.from({ length: overHttp }, async () => {
      const { statusCode, headers, body } = await request(`${site.url}/d/${guess()}`, {
        dispatcher,
      });
      await body.dump();
      if (headers["retry-after"] !== undefined) told += 1;
      statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1);
    }),
  );
  await dispatcher.close();
  expect(statuses).toEqual(
    new Map([
      [404, 20],
      [429, overHttp - 20],
    ]),
  );
  expect(told).toBe(overHttp - 20);
  // a link opens at the same address
  expect((await send("GET", link.download_url)).bytes.toString()).toBe("secret plans");
  const refused = records.filter(({ action }) => action === "download");
  expect(new Set(refused.map(({ address }) => address))).toEqual(new Set(["127.0.0.1"]));
  const elsewhere = await site.sluice.host.redeem({
    kind: "link",
    method: "GET",
    token: guess(),
    address: "203.0.113.7",
    header: () => undefined,
  });
  expect(elsewhere.status).toBe(404);
});
