import { readFileSync } from "node:fs";
import { checkBackend, type Fixture, type Traits } from "@sluice/storage/conformance";
import type { ObjectInfo } from "@sluice/storage";
import { expect, test } from "vitest";
import { createMapBackend, createObjectMap, putObject } from "./examples/map-backend.ts";

type Names<T> = Readonly<Record<keyof T, true>>;

const traits: Names<Traits> = {
  withoutSize: true,
  withoutEtag: true,
  withoutCoding: true,
  caseInsensitive: true,
  normalizing: true,
  describesFolders: true,
  refuses: true,
  maxKeyBytes: true,
  partBytes: true,
  credentialsExpireAt: true,
  urlLifeMs: true,
};
const hooks: Names<Omit<Fixture, "backend" | "put" | "remove" | "traits" | "why">> = {
  putTyped: true,
  putLarge: true,
  overwrite: true,
  touch: true,
  putFolder: true,
  putClutter: true,
  alias: true,
  putOutside: true,
  reopen: true,
  faults: true,
  countHandles: true,
  countRequests: true,
  countBytes: true,
  countLeftovers: true,
  secrets: true,
  fetch: true,
  passTime: true,
  dispose: true,
};
const members: Names<ObjectInfo> = {
  key: true,
  size: true,
  etag: true,
  lastModified: true,
  contentType: true,
  contentEncoding: true,
  digests: true,
};

function guide(name: string): string {
  return readFileSync(new URL(`../../../docs/guides/storage/${name}`, import.meta.url), "utf8");
}

/** The names in the first column of the table whose first heading is `heading`. */
function namesIn(page: string, heading: string): string[] {
  const lines = page.split("\n");
  const start = lines.findIndex((line) => line.startsWith(`| ${heading} `)) + 2;
  const length = lines.slice(start).findIndex((line) => !line.startsWith("|"));
  return lines.slice(start, start + length).map((line) => line.split("`")[1]!);
}

test.each([
  ["conformance-kit.md", "trait", traits],
  ["conformance-kit.md", "hook", hooks],
  ["operations.md", "member", members],
])("%s lists every %s", (page, heading, names) => {
  expect(namesIn(guide(page), heading).toSorted()).toEqual(Object.keys(names).toSorted());
});

test("the counts that the page of the kit expects of a first backend are those of one", async () => {
  const findings = await checkBackend((): Fixture => {
    const map = createObjectMap();
    const backend = createMapBackend(map);
    return {
      backend: {
        name: "map",
        describe: (...call) => backend.describe(...call),
        open: (...call) => backend.open(...call),
        list: (...call) => backend.list(...call),
      },
      put: async (key, content) => void putObject(map, key, content),
      remove: async (key) => void map.entries.delete(key),
    };
  });
  const count = (outcome: string): number =>
    findings.filter((finding) => finding.outcome === outcome).length;
  const lacking = findings.filter(
    (finding) => finding.outcome === "absent" && /^the backend has no \w+$/.test(finding.reason),
  );
  const page = guide("conformance-kit.md").replaceAll(/\s+/g, " ");
  expect(count("broken")).toBe(0);
  expect(page).toContain(
    `\`${count("kept")} kept · 0 broken · ${count("absent")} absent\`: ${lacking.length} of the absent rules`,
  );
});
