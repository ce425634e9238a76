import { expect, test } from "vitest";
import { readLimits } from "@sluice/core/internal";

interface Limits {
  readonly perPrincipal: number;
  readonly perAddress: number | undefined;
  readonly idleMs: number;
}

const defaults: Limits = { perPrincipal: 8, perAddress: undefined, idleMs: 1_000 };
const read = (given: unknown): Limits =>
  readLimits("serve: streams", given as Partial<Limits> | undefined, defaults);

test.each<[unknown, Limits]>([
  [undefined, defaults],
  [{}, defaults],
  [{ perPrincipal: undefined }, defaults],
  [
    { perPrincipal: 1, perAddress: 2 },
    { perPrincipal: 1, perAddress: 2, idleMs: 1_000 },
  ],
])("limits %j have the defaults of what they leave out", (given, complete) => {
  expect(read(given)).toEqual(complete);
});

test.each<[unknown, string]>([
  [4, "serve: streams must be an object of { perPrincipal, perAddress, idleMs }"],
  [null, "serve: streams must be an object of { perPrincipal, perAddress, idleMs }"],
  [{ perPrincipals: 4 }, "serve: streams: there is no option perPrincipals; did you mean perPr"],
  [{ perPrincipal: 0 }, "serve: streams.perPrincipal must be a whole number from 1"],
  [{ perAddress: 1.5 }, "serve: streams.perAddress must be a whole number from 1"],
  [{ idleMs: Infinity }, "serve: streams.idleMs must be a whole number from 1"],
  [{ perPrincipal: "4" }, "serve: streams.perPrincipal must be a whole number from 1"],
])("limits %j are refused with how to write them", (given, message) => {
  expect(() => read(given)).toThrow(message);
});
