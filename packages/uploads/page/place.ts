import type { endings } from "../src/page/page-endings.ts";

type Phase = keyof typeof endings;

/** Where the form of a question is shown: in a tab of its own, or in the frame of a host. */
export interface Place {
  /** Of the page at the server, which tells its state and takes its answer. */
  readonly url: string;
  /** What to do when the time is over. */
  readonly timeOver: string;
  /** Says until when files are taken; `at` is a time of the clock. */
  readonly goodUntil: (at: string) => string;
  readonly endingOf: (phase: Phase) => (typeof endings)[Phase];
  /** Is told how the question ended, each time that it is known better. `isOwn`: by an answer of this place. */
  readonly onEnding?: (phase: Phase | "expired", isOwn: boolean) => void;
  /** Takes files that are picked outside of the form. */
  readonly join?: (take: (files: readonly File[]) => void) => void;
}
