import { type Finding, conformanceRules } from "@sluice/storage/conformance";
import { expect, test } from "vitest";
import { type Row, toPage } from "./page.ts";

/** A backend that keeps every rule but some. */
function rowWith(change: (id: string) => Partial<Finding> = () => ({})): Row {
  const findings = conformanceRules.map(
    (rule) => ({ rule, outcome: "kept", ...change(rule.id) }) as Finding,
  );
  return { name: "some", folder: "storage", on: "itself", operations: ["describe"], findings };
}

test("kept rules are counted, and absent ones are named with their reason", () => {
  const page = toPage([
    rowWith((id) => {
      if (id.startsWith("presign-"))
        return { outcome: "absent", reason: "the backend has no presign" };
      return id === "list-clutter"
        ? { outcome: "absent", reason: "the fixture has no putClutter" }
        : {};
    }),
  ]);
  expect(page).toMatch(/^\| presign +\| – +\|$/m);
  expect(page).toMatch(/^\| list +\| 14 of 15 +\|$/m);
  expect(page).toContain("- the backend has no presign: all of presign\n");
  expect(page).toContain("Not checked:\n\n- the fixture has no putClutter: `list-clutter`\n");
});

test("a broken rule is no matrix", () => {
  const broken = rowWith((id) => (id === "open-bytes" ? { outcome: "broken", error: 1 } : {}));
  expect(() => toPage([broken])).toThrow("some breaks open-bytes");
});
