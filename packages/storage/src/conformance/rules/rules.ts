import { abortRules } from "./reads/abort-rules.ts";
import { answerRules } from "./reads/answer-rules.ts";
import { conditionRules } from "./reads/condition-rules.ts";
import { describeRules } from "./reads/describe-rules.ts";
import { failureRules } from "./reads/failure-rules.ts";
import { fileRules } from "./reads/file-rules.ts";
import { keyRules } from "./reads/key-rules.ts";
import { listRules } from "./reads/list-rules.ts";
import { overwriteRules } from "./writes/overwrite-rules.ts";
import { openRules } from "./reads/open-rules.ts";
import { presignRules } from "./reads/presign-rules.ts";
import { rangeRules } from "./reads/range-rules.ts";
import { removeRules } from "./writes/remove-rules.ts";
import { repeatRules } from "./writes/repeat-rules.ts";
import type { Rule } from "../rule.ts";
import { watchRules } from "./reads/watch-rules.ts";
import { spellingRules } from "./reads/spelling-rules.ts";
import { stepRules } from "./writes/step-rules.ts";
import { writeRules, writeSizeRules } from "./writes/write-rules.ts";

/** The whole contract of a storage backend, in the order in which one builds one. */
export const conformanceRules: readonly Rule[] = [
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
