import type { Edit } from "../process/edits.ts";

/** Sizes and times of the product near each other, so that files of some kilobytes pass all of them. */
export const smallThresholds: readonly Edit[] = [
  {
    file: "client/src/save/fetch-into.ts",
    from: "const minShareBytes: number = 512 * 1_024;",
    to: "const minShareBytes: number = 10_000;",
  },
  {
    file: "client/src/save/resume-record.ts",
    from: "const everyMs = 250;",
    to: "const everyMs = 20;",
  },
];
