import { abortMutants } from "./abort-mutants.ts";
import { answerMutants } from "./answer-mutants.ts";
import { conditionMutants, digestMutants } from "./condition-mutants.ts";
import { describeMutants } from "./describe-mutants.ts";
import { factMutants } from "./fact-mutants.ts";
import { failureMutants } from "./failure-mutants.ts";
import { keyMutants, listMutants } from "./key-mutants.ts";
import type { Mutant, Mutants } from "./mutant.ts";
import { openMutants } from "./open-mutants.ts";
import { nearRemovalMutants } from "./near-removal-mutants.ts";
import { overwriteMutants } from "./overwrite-mutants.ts";
import { stepOverwriteMutants } from "./step-overwrite-mutants.ts";
import { writeConditionMutants } from "./write-condition-mutants.ts";
import { presignMutants } from "./presign-mutants.ts";
import { removeMutants } from "./remove-mutants.ts";
import { repeatMutants } from "./repeat-mutants.ts";
import { sizeMutants } from "./size-mutants.ts";
import { spellingMutants } from "./spelling-mutants.ts";
import { stepMutants } from "./step-mutants.ts";
import { watchMutants } from "./watch-mutants.ts";
import { writeMutants } from "./write-mutants.ts";

/** Broken backends by the rule that they were made for. */
export const mutants: Mutants = {
  ...describeMutants,
  ...openMutants,
  ...conditionMutants,
  ...digestMutants,
  ...failureMutants,
  ...answerMutants,
  ...abortMutants,
  ...keyMutants,
  ...listMutants,
  ...presignMutants,
  ...watchMutants,
  ...writeMutants,
  ...stepMutants,
  ...removeMutants,
  ...repeatMutants,
};

/**
 * Broken backends by the sentence of the contract that they were made from, without a look at the rules. Rules that stand on
 * the broken one may see the flaw as well.
 */
export const promiseMutants: readonly (readonly [
  promise: string,
  broken: readonly (Mutant & { readonly rule: string })[],
])[] = [
  overwriteMutants,
  writeConditionMutants,
  stepOverwriteMutants,
  nearRemovalMutants,
  sizeMutants,
  spellingMutants,
  factMutants,
].flatMap((table) =>
  Object.entries(table).map(([promise, rules]) => [
    promise,
    Object.entries(rules).flatMap(([rule, flaws]) =>
      Object.entries(flaws).map(([flaw, breaks]) => ({ rule, flaw, breaks })),
    ),
  ]),
);
