import { abortRules } from "./abort-rules.ts";
import { answerRules } from "./answer-rules.ts";
import { conditionRules } from "./condition-rules.ts";
import { describeRules } from "./describe-rules.ts";
import { failureRules } from "./failure-rules.ts";
import { fileRules } from "./file-rules.ts";
import { keyRules } from "./key-rules.ts";
import { listRules } from "./list-rules.ts";
import { overwriteRules } from "./overwrite-rules.ts";
import { openRules } from "./open-rules.ts";
import { presignRules } from "./presign-rules.ts";
import { rangeRules } from "./range-rules.ts";
import { removeRules } from "./remove-rules.ts";
import { repeatRules } from "./repeat-rules.ts";
import type { Rule } from "../rule.ts";
import { watchRules } from "./watch-rules.ts";
import { spellingRules } from "./spelling-rules.ts";
import { stepRules } from "./step-rules.ts";
import { writeRules } from "./write-rules.ts";
import { writeSizeRules } from "./write-size-rules.ts";

/** The whole contract of a storage backend, in the order in which one builds one. */
export const rules: readonly Rule[] = [
  ...describeRules,
  ...openRules,
  ...rangeRules,
  ...fileRules,
  ...conditionRules,
  ...failureRules,
  ...answerRules,
  ...abortRules,
  ...keyRules,
  ...listRules,
  ...presignRules,
  ...watchRules,
  ...writeRules,
  ...stepRules,
  ...removeRules,
  ...repeatRules,
  ...spellingRules,
  ...overwriteRules,
  ...writeSizeRules,
];
