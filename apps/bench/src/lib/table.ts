/** A table as data, and the runner that measures it. */
import type { Bench } from "./bench.ts";
import { across, ratio, type Sample, type Summary } from "./statistics.ts";

/** One thing to find out. */
export interface TableSpec {
  /** What `--only` names. */
  readonly id: string;
  readonly title: string;
  /** One or two sentences: which client, and what was measured. */
  readonly how: string | ((bench: Bench) => string);
  readonly columns: readonly (Column & { readonly is: Quantity })[];
  /** What Sluice promises. A promise about a subject without a row is left out. */
  readonly promises: readonly Promised[] | ((bench: Bench) => readonly Promised[]);
  /** Measures every subject. What is given to `running` ends after it. */
  measure(bench: Bench, running: Running): Promise<Measured>;
}

/** The rows of a table as they were measured, in their order. */
interface Measured {
  readonly subjects: readonly MeasuredSubject[];
  readonly traces?: readonly Trace[];
  readonly curves?: readonly Curve[];
}

/** The samples of one subject, or why there are none. */
export interface MeasuredSubject {
  readonly name: string;
  readonly absent?: string | undefined;
  readonly samples?: readonly Sample[];
}

/** The samples of each subject that is there. */
export type Samples = ReadonlyMap<string, readonly Sample[]>;

/** A quantity of one subject: what a column shows, what a promise is about. */
export type Quantity = (name: string, samples: Samples) => Summary | undefined;

/** One promise of one subject. */
export interface Promised {
  readonly claim: string;
  /** The subject. */
  readonly of: string;
  readonly is: Quantity;
  readonly atLeast?: number;
  readonly atMost?: number;
  /** Printed when it is missed: the least program that could keep it, and where a profile says that the time goes. */
  readonly floor?: { readonly of?: string; readonly profile: string };
}

/** What each run gave, times `factor`. */
export function each(key: string, factor = 1): Quantity {
  return (name, samples) => across(samples.get(name), key, factor);
}

/** The quotient of each run and the run of `base` in the same round. */
export function beside(base: string | ((name: string) => string), key: string): Quantity {
  return (name, samples) => {
    const other = typeof base === "string" ? base : base(name);
    return ratio(samples.get(name), samples.get(other), key);
  };
}

/** How many times less each run took than the run of `base` in the same round. */
export function faster(base: string | ((name: string) => string), key = "seconds"): Quantity {
  return (name, samples) => {
    const other = typeof base === "string" ? base : base(name);
    return ratio(samples.get(other), samples.get(name), key);
  };
}

/** Something to measure beside others. */
export interface Subject {
  readonly name: string;
  /** Why it cannot be measured here. */
  readonly absent?: string | undefined;
  /** One run. Called once before the rounds to warm up; that result is dropped. */
  measure(): Promise<Sample>;
}

/** Options of {@link interleave}. */
interface InterleaveOptions {
  /** Runs of each subject. */
  readonly runs: number;
  /** Called after each run. */
  readonly onRun?: (name: string, round: number, sample: Sample) => void;
}

/** Measures the subjects in rounds, A B C A B C …, and gives the samples of each in order. */
export async function interleave(
  subjects: readonly Subject[],
  options: InterleaveOptions,
): Promise<ReadonlyMap<string, readonly Sample[]>> {
  const samples = new Map<string, Sample[]>(subjects.map(({ name }) => [name, []]));
  for (const subject of subjects) await subject.measure();
  for (let round = 0; round < options.runs; round++) {
    for (const subject of subjects) {
      const sample = await subject.measure();
      samples.get(subject.name)!.push(sample);
      options.onRun?.(subject.name, round, sample);
    }
  }
  return samples;
}

/** The same as rows of a table, with progress; those that are absent stay in their place. */
export async function takeTurns(
  bench: Bench,
  subjects: readonly Subject[],
  runs: number = bench.runs,
): Promise<MeasuredSubject[]> {
  const samples = await interleave(
    subjects.filter(({ absent }) => absent === undefined),
    {
      runs,
      onRun: (name, round, sample) =>
        bench.say(`  ${round + 1}/${runs} ${name}: ${formatSample(sample)}`),
    },
  );
  return subjects.map(({ name, absent }) => ({ name, absent, samples: samples.get(name) ?? [] }));
}

/** A sample as a line of progress. */
function formatSample(sample: Sample): string {
  return Object.entries(sample)
    .map(([key, value]) => `${key} ${value > 1e6 ? value.toExponential(2) : value.toFixed(3)}`)
    .join(", ");
}

/** What runs for one table and ends with it, the last first. */
export interface Running extends AsyncDisposable {
  /** Ends `it` with the others. */
  use<T extends AsyncDisposable>(it: T): T;
}

/** Nothing yet. */
function createRunning(): Running {
  const all: AsyncDisposable[] = [];
  return {
    use(it) {
      all.push(it);
      return it;
    },
    async [Symbol.asyncDispose]() {
      for (const it of all.toReversed()) await it[Symbol.asyncDispose]();
    },
  };
}

/** Measures a table and works out its cells and what came of its promises. */
export async function runTable(spec: TableSpec, bench: Bench): Promise<Table> {
  await using running = createRunning();
  const { subjects, ...drawn } = await spec.measure(bench, running);
  const here = subjects.filter(({ absent }) => absent === undefined);
  const samples: Samples = new Map(here.map(({ name, samples: own = [] }) => [name, own]));
  const how = typeof spec.how === "string" ? spec.how : spec.how(bench);
  const promises = typeof spec.promises === "function" ? spec.promises(bench) : spec.promises;
  return {
    id: spec.id,
    title: spec.title,
    how: subjects.length === 0 ? `${how} Not measured here.` : how,
    columns: spec.columns,
    rows: subjects.map(({ name, absent }) =>
      absent === undefined
        ? {
            name,
            cells: Object.fromEntries(spec.columns.map(({ key, is }) => [key, is(name, samples)])),
          }
        : { name, absent, cells: {} },
    ),
    reach: promises
      .filter(({ of }) => subjects.some(({ name }) => name === of))
      .map(({ of, is, floor, ...promise }) => ({
        ...promise,
        got: is(of, samples),
        ...(floor && {
          floor: { got: floor.of && is(floor.of, samples), profile: floor.profile },
        }),
      })) as readonly Reach[],
    ...drawn,
  };
}

/** What was found. */
export interface Table {
  readonly id: string;
  readonly title: string;
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

/** What came of one promise. */
export interface Reach {
  readonly claim: string;
  readonly atLeast?: number;
  readonly atMost?: number;
  /** Absent when it could not be measured. */
  readonly got: Summary | undefined;
  /** What the least program gets, and where the time goes. */
  readonly floor?: { readonly got?: Summary | undefined; readonly profile: string };
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
