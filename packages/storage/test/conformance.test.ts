import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { wrapBackend } from "@sluice/storage";
import {
  checkBackend,
  checkRule,
  type Fixture,
  conformanceRules,
} from "@sluice/storage/conformance";
import { mutants, promiseMutants } from "./mutants/mutants.ts";
import type { Mutant } from "./mutants/mutant.ts";
import { createReferenceService } from "./reference-service.ts";

/** A mutant hangs where the right backend would answer; nobody should wait long for that. */
const deadlineMs = 400;

const contract = await readFile(new URL("../src/contract/backend.ts", import.meta.url), "utf8");

function mutated(mutant: Mutant): Fixture {
  const service = createReferenceService();
  const { backend, fixture } = service;
  return {
    ...fixture,
    backend: wrapBackend(backend, mutant.breaks(service)),
    reopen: async () => wrapBackend((await fixture.reopen?.()) ?? backend, mutant.breaks(service)),
  };
}

// one mutant leaves a rejection unhandled on purpose; the kit must see it, the runner need not
const others = process.listeners("unhandledRejection");
beforeAll(() => void process.removeAllListeners("unhandledRejection"));
afterAll(() => {
  for (const listener of others) process.on("unhandledRejection", listener);
});

test(
  "a service that can do everything keeps every rule, and none is absent",
  { tags: "slow" },
  async () => {
    const findings = await checkBackend(() => createReferenceService().fixture);
    expect(findings.filter(({ outcome }) => outcome !== "kept")).toEqual([]);
  },
);

test("every rule has a mutant, and no mutant is without a rule", () => {
  const caught = promiseMutants.flatMap(([, broken]) => broken.map(({ rule }) => rule));
  expect([...new Set([...Object.keys(mutants), ...caught])].toSorted()).toEqual(
    conformanceRules.map(({ id }) => id).toSorted(),
  );
});

test("mutants break promises that stand in the contract", () => {
  const plain = contract.replaceAll(/\s+\* |\s+/g, " ");
  expect(
    promiseMutants.map(([promise]) => promise).filter((text) => !plain.includes(text)),
  ).toEqual([]);
});

test("the contract cites rules that exist", () => {
  const cited = [...contract.matchAll(/\(([a-z]+-[a-z, -]+)\)/g)].flatMap(([, ids = ""]) =>
    ids.split(", "),
  );
  expect(cited.length).toBeGreaterThan(20);
  expect(cited.filter((id) => !conformanceRules.some((rule) => rule.id === id))).toEqual([]);
});

// a rule over a whole table sees flaws of its neighbours, and takes longer
const wide = new Set(promiseMutants.flatMap(([, broken]) => broken.map(({ rule }) => rule)));

describe("each mutant is caught by its rule", () => {
  const all = Object.entries(mutants).map(([rule, mutant]) => ({ ...mutant, rule }));
  for (const mutant of [...all, ...promiseMutants.flatMap(([, broken]) => broken)])
    test(`${mutant.rule} catches a backend that ${mutant.flaw}`, async () => {
      const rule = conformanceRules.find(({ id }) => id === mutant.rule);
      if (rule === undefined) throw new Error("there is no such rule");
      const finding = await checkRule(rule, () => mutated(mutant), {
        deadlineMs: wide.has(rule.id) ? 5 * deadlineMs : deadlineMs,
      });
      expect(finding.outcome).toBe("broken");
    });
});

// every mutant against every rule is minutes of waiting for mutants that hang: a few unless asked for
const sample = Object.entries(mutants).filter(
  (_, n) => process.env["SLUICE_DEEP"] !== undefined || n % 150 === 0,
);
describe("each mutant is caught only by its rule", () => {
  for (const [id, mutant] of sample)
    test(`${id}: ${mutant.flaw}`, async () => {
      const broken = [];
      for (const rule of conformanceRules) {
        if (wide.has(rule.id) && rule.id !== id) continue;
        const { outcome } = await checkRule(rule, () => mutated(mutant), { deadlineMs: 3000 });
        if (outcome === "broken") broken.push(rule.id);
      }
      expect(broken.toSorted()).toEqual([id, ...(mutant.also ?? [])].toSorted());
    });
});
