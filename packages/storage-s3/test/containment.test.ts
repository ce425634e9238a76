import { checkKey } from "@sluice/storage/plugin";
import { expect, test } from "vitest";
import { createBucket } from "./bucket.ts";

/** Of the keys that reach the server, and of those that are refused before, one in this many is tried. */
const [legalStep, illegalStep] = process.env["SLUICE_DEEP"] === undefined ? [59, 7] : [1, 1];

const ups = [
  "..",
  ".",
  "%2e%2e",
  "%252e%252e",
  ".%00.",
  "..\0",
  "",
  "\uff0e\uff0e",
  "..;",
  "root/..",
];
const slashes = ["/", "//", "\\", "%2f", "%5c", "%252f", "/./", "\u2215"];
const targets = [
  "canary",
  "root-secret/canary",
  "root",
  "bucket/canary",
  "canary?x-id=GetObject",
  "canary#",
];
const ends = ["", "/", "\0", "?versionId=null", "?uploads", " "];

const hostile = ups.flatMap((up) =>
  slashes.flatMap((slash) =>
    targets.flatMap((target) =>
      ends.flatMap((end) => [
        up + slash + target + end,
        `a/${up}${slash}${up}${slash}${target}${end}`,
      ]),
    ),
  ),
);

test(
  "no hostile key is ever asked of S3 as another name than root/ and the key itself",
  { tags: "slow" },
  async () => {
    await using bucket = await createBucket({ prefix: "root" });
    const { standIn, backend } = bucket;
    for (const name of ["canary", "root-secret/canary", "root"])
      standIn.put(name, Buffer.from("outside"));
    const legal = hostile.filter((key) => checkKey(key) === undefined);
    expect(legal.length).toBeGreaterThan(100);
    const illegal = hostile.filter((key) => checkKey(key) !== undefined);
    for (const key of illegal.filter((_, index) => index % illegalStep === 0))
      await expect(backend.describe(key)).rejects.toMatchObject({ code: "invalid_argument" });
    expect(standIn.requests).toEqual([]);
    for (const key of legal.filter((_, index) => index % legalStep === 0)) {
      await expect(backend.describe(key)).rejects.toMatchObject({ code: "not_found" });
      const { url = "" } = standIn.requests.at(-1) ?? {};
      const [path = "", query] = url.split("?");
      expect(decodeURIComponent(path)).toBe(`/${standIn.bucket}/root/${key}`);
      expect(query).toBeUndefined();
      expect(new URL(standIn.endpoint + url).pathname).toBe(path);
    }
  },
);

test("a key that is too long with its prefix is refused before anything is sent", async () => {
  await using bucket = await createBucket({ prefix: "p".repeat(100) });
  const key = "k".repeat(924);
  const { backend, standIn } = bucket;
  for (const work of [
    () => backend.describe(key),
    () => backend.open(key),
    () => backend.write(key),
    () => backend.presign(key, { expiresInMs: 1000 }),
  ])
    await expect(work()).rejects.toMatchObject({ code: "invalid_argument" });
  expect(standIn.requests).toEqual([]);
  await expect(backend.describe(key.slice(1))).rejects.toMatchObject({ code: "not_found" });
});
