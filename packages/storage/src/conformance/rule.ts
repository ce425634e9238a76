import type { StorageBackend } from "../contract/backend.ts";
import type { Faults, Fixture } from "./fixture.ts";

type OptionalOf<T> = { [K in keyof T]-?: undefined extends T[K] ? K : never }[keyof T] & string;
type OptionalOperation = OptionalOf<StorageBackend>;
type Hook = Exclude<OptionalOf<Fixture>, "faults" | "traits" | "why">;
type FaultName = keyof Faults;

/** Requirements without which a rule means nothing. */
export type Need =
  | `backend.${OptionalOperation}`
  | `fixture.${Hook}`
  | `fault.${FaultName}`
  | "etag"
  | "size"
  | "coding";

/** One sentence of the contract, and how it is found out whether a backend keeps it. */
export interface Rule {
  /** Stable name: the section, then what it is about. */
  readonly id: string;
  /** The behaviour of a backend, in the present tense. */
  readonly sentence: string;
  /** Without these the outcome is `absent`. */
  readonly needs: readonly Need[];
  /** Rejects when the rule is broken. */
  check(fixture: Fixture): Promise<void>;
}

type Named<N extends Need, Kind extends string> = N extends `${Kind}.${infer Name}` ? Name : never;
type Present<T, K> = T & Required<Pick<T, Extract<K, keyof T>>>;

/** A fixture in which what the rule needs is known to be there. */
export type Equipped<N extends Need> = Present<Fixture, Named<N, "fixture">> & {
  readonly backend: Present<StorageBackend, Named<N, "backend">>;
  readonly faults: Present<Faults, Named<N, "fault">>;
};

interface RuleText<N extends Need> {
  readonly id: string;
  readonly sentence: string;
  readonly needs?: readonly N[];
  check(fixture: Equipped<N>): Promise<void>;
}

/** Writes down a rule; its needs are then present in the type of its fixture. */
export function rule<const N extends Need = never>(text: RuleText<N>): Rule {
  const { id, sentence, needs = [] } = text;
  return { id, sentence, needs, check: (fixture) => text.check(fixture as Equipped<N>) };
}

/** Thrown by a check that finds nothing to check; the outcome is `absent` with this reason. */
export class Absent extends Error {
  override readonly name = "Absent";
}

/** Why a rule cannot be checked here, or `undefined` when it can. */
export function missing(need: Need, fixture: Fixture): string | undefined {
  const { backend, traits, faults = {}, why = {} } = fixture;
  if (need === "etag") return traits?.withoutEtag && "the backend has no validators";
  if (need === "size") return traits?.withoutSize && "the backend does not know sizes";
  if (need === "coding") return traits?.withoutCoding && "the backend cannot see codings";
  const [kind, name] = need.split(".") as ["backend" | "fixture" | "fault", Hook | FaultName];
  const place = { backend, fixture, fault: faults }[kind] as Readonly<Record<string, unknown>>;
  if (place[name] !== undefined) return undefined;
  const reason = why[name] ?? (kind === "fault" ? why.faults : undefined);
  if (reason !== undefined) return reason;
  return kind === "fault" ? `the fixture cannot cause "${name}"` : `the ${kind} has no ${name}`;
}
