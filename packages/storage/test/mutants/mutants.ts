import { abortMutants } from "./abort-mutants.ts";
import { answerMutants } from "./answer-mutants.ts";
import { conditionMutants, digestMutants } from "./condition-mutants.ts";
import { describeMutants } from "./describe-mutants.ts";
import { failureMutants } from "./failure-mutants.ts";
import { keyMutants, listMutants } from "./key-mutants.ts";
import type { Mutants } from "./mutant.ts";
import { openMutants } from "./open-mutants.ts";
import { presignMutants } from "./presign-mutants.ts";
import { removeMutants } from "./remove-mutants.ts";
import { repeatMutants } from "./repeat-mutants.ts";
import { stepMutants } from "./step-mutants.ts";
import { watchMutants } from "./watch-mutants.ts";
import { writeMutants } from "./write-mutants.ts";

/** One broken backend for every rule of the kit. */
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
