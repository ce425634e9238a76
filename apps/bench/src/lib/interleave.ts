import type { Sample } from "./statistics.ts";

/** Something to measure beside others. */
export interface Subject {
  readonly name: string;
  /** One run. Called once before the rounds to warm up; that result is dropped. */
  measure(): Promise<Sample>;
}

/** Options of {@link interleave}. */
export interface InterleaveOptions {
  /** Runs of each subject. */
  readonly runs: number;
  /** Told after each run. */
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
