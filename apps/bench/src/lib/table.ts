import type { Bench } from "./bench.ts";
import type { Summary } from "./statistics.ts";

/** One thing to find out: a file under `tables/` each. */
export interface Experiment {
  /** What `--only` names. */
  readonly id: string;
  readonly title: string;
  run(bench: Bench): Promise<Table>;
}

/** What an experiment found. */
export interface Table {
  /** One or two sentences: which client, and what was measured. */
  readonly how: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  /** What Sluice promises, and what it got. */
  readonly reach: readonly Reach[];
  /** Memory over time, drawn as lines. */
  readonly traces?: readonly Trace[];
  /** Quantities over counts, drawn as lines. */
  readonly curves?: readonly Curve[];
}

/** A quantity of a table. */
export interface Column {
  readonly key: string;
  readonly title: string;
  /** Digits after the point. */
  readonly digits: number;
  /** Drawn as bars. */
  readonly bars?: true;
}

/** A subject of a table. A cell that was not measured is missing. */
export interface Row {
  readonly name: string;
  /** Why the row is empty. */
  readonly absent?: string;
  readonly cells: Readonly<Record<string, Summary | undefined>>;
}

/** A row for each name, empty for those that are not installed. */
export function rowsOf(
  names: readonly string[],
  absent: readonly string[],
  cells: (name: string) => Row["cells"],
): readonly Row[] {
  return names.map((name) =>
    absent.includes(name)
      ? { name, absent: "not installed", cells: {} }
      : { name, cells: cells(name) },
  );
}

/** One promise. */
export interface Reach {
  readonly claim: string;
  readonly atLeast?: number;
  readonly atMost?: number;
  /** Absent when it could not be measured. */
  readonly got: Summary | undefined;
  /** Printed when the promise is missed. */
  readonly floor?: Floor;
}

/** Why a promise is missed. */
interface Floor {
  /** What the least program gets that could keep the promise, where the table has such a row. */
  readonly got?: Summary | undefined;
  /** Where a profile says that the time goes: a sentence. */
  readonly profile: string;
}

/** One line of a plot over time. */
export interface Trace {
  readonly name: string;
  /** Seconds since the start, and MiB. */
  readonly points: readonly (readonly [seconds: number, mib: number])[];
}

/** Lines over counts, from 1 up by factors of ten. */
export interface Curve {
  readonly title: string;
  readonly lines: readonly {
    readonly name: string;
    readonly points: readonly (readonly [count: number, value: number])[];
  }[];
}

/** Whether a promise was kept; `undefined` when it could not be measured. */
export function isKept(reach: Reach): boolean | undefined {
  if (reach.got === undefined) return undefined;
  const { median } = reach.got;
  return median >= (reach.atLeast ?? -Infinity) && median <= (reach.atMost ?? Infinity);
}
