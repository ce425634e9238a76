import type { UnlistedTally } from "@sluice/storage/internal";
import type { ClientConnection } from "../server-calls/connect.ts";
import { listResources, type ListedResource } from "../server-calls/list-resources.ts";
import { type Advice, fault } from "../terminal/failure.ts";
import { printable } from "../terminal/print.ts";
import { globFilter, globStart, type NameFilter, pathFilter } from "./name-filter.ts";
import {
  hasScheme,
  localPath,
  pathOfReadable,
  readableGlob,
  readableUri,
} from "./resource-path.ts";

/** A resource to get. */
export interface ChosenResource extends Partial<Pick<ListedResource, "size" | "lastModified">> {
  readonly uri: string;
  /** Where it goes below the output folder, with `/`; absent for one that gets its own name there, or the output's. */
  readonly path?: string;
}

/** What to choose by. */
export interface ChoiceOptions {
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
}

/** Resources of the list that are held in memory. */
const maxChosen = 1_000_000;

/**
 * The resources that the arguments of a command name, in their order. A URI stands for itself, without a look at the list. A
 * folder (`files://local/docs/`) and a glob (`files://local/docs/*.pdf`) stand for the resources of the list below it, with
 * their paths; without a scheme both begin at the root, and a name stands for the one resource or folder that has it. Without
 * arguments, a filter chooses from the whole list.
 *
 * Throws `not_found` if one chooses nothing, and `invalid_argument` if a name is that of several.
 */
export async function chooseResources(
  connection: ClientConnection,
  names: readonly string[],
  options: ChoiceOptions,
): Promise<readonly ChosenResource[]> {
  const { include = [], exclude = [] } = options;
  const isFiltered = include.length + exclude.length > 0;
  const filter = pathFilter(include, exclude);
  const choices = (names.length > 0 ? names : ["**"]).map((name) => choiceOf(name, filter));
  if (isFiltered && choices.every(({ isExact }) => isExact))
    throw fault(
      "invalid_argument",
      "--include and --exclude choose from a folder",
      "name one with / at its end",
    );
  if (!choices.every(({ isExact }) => isExact)) {
    let matches = 0;
    for await (const resource of listResources(connection)) {
      const readable = readableUri(resource.uri);
      for (const choice of choices) if (choice.look(resource, readable)) matches += 1;
      if (matches > maxChosen)
        throw fault("too_large", `more than ${maxChosen} resources match`, "name a folder of them");
    }
  }
  return choices.flatMap((choice) => choice.chosen(connection.server));
}

/**
 * The resources of the list in one folder of the server, with their paths below it, one after the other: nothing is held in
 * memory. `name` is a URI or a path, with or without its slash; `/` is everything.
 */
export async function* resourcesIn(
  connection: ClientConnection,
  name: string,
  isWanted: NameFilter,
  unlisted: UnlistedTally,
): AsyncGenerator<ChosenResource> {
  const folder = name === "/" ? "" : name.endsWith("/") ? name : `${name}/`;
  const isRooted = hasScheme(folder);
  const base = readableUri(folder);
  for await (const resource of listResources(connection, unlisted)) {
    const readable = readableUri(resource.uri);
    const text = isRooted ? readable : pathOfReadable(readable);
    const below = text.startsWith(base) ? text.slice(base.length) : "";
    // an empty path is that of a resource with the name of the folder
    if (below !== "" && isWanted(below)) yield chosenBelow(resource, below);
  }
}

/** Throws for a command line that names nothing. */
export function ensureNamed(
  names: readonly string[],
  { include = [], exclude = [] }: ChoiceOptions,
): void {
  if (names.length + include.length + exclude.length > 0) return;
  throw fault(
    "invalid_argument",
    "no resource is named",
    "name one, a folder, or '**' for all; for a download link use `curl -fLOJ LINK`",
  );
}

/** One argument, and what it chooses. */
interface Choice {
  /** A URI: nothing is looked for. */
  readonly isExact: boolean;
  /** Looks at a resource of the list; true if it is kept. */
  look(resource: ListedResource, readable: string): boolean;
  isEmpty(): boolean;
  chosen(server: string): readonly ChosenResource[];
}

function choiceOf(name: string, filter: NameFilter): Choice {
  const isRooted = hasScheme(name);
  const rootLength = name.length - pathOfReadable(name).length;
  // in a URI a question mark begins the query
  const glob = globStart(isRooted ? name.slice(rootLength).replaceAll("?", " ") : name);
  if (glob !== undefined) return belowChoice(name, rootLength + glob, isRooted, filter);
  if (name.endsWith("/")) return belowChoice(name, name.length, isRooted, filter);
  return isRooted ? exactChoice(name) : nameChoice(name, filter);
}

function exactChoice(uri: string): Choice {
  return { isExact: true, look: () => false, isEmpty: () => false, chosen: () => [{ uri }] };
}

/** What is below the first `baseLength` characters of an argument, and matches the glob behind them if there is one. */
function belowChoice(
  name: string,
  baseLength: number,
  isRooted: boolean,
  filter: NameFilter,
): Choice {
  const base = readableUri(name.slice(0, baseLength));
  const glob = name.slice(baseLength);
  const matchesGlob = glob === "" ? () => true : globFilter(readableGlob(glob));
  const found: ChosenResource[] = [];
  return {
    isExact: false,
    look(resource, readable) {
      const text = isRooted ? readable : pathOfReadable(readable);
      if (!text.startsWith(base)) return false;
      const below = text.slice(base.length);
      // a name may have the signs of a glob
      const matches = matchesGlob(below) || below === glob;
      if (!matches || !filter(below)) return false;
      // a resource may be named like a folder
      found.push(below === "" ? { uri: resource.uri } : chosenBelow(resource, below));
      return true;
    },
    isEmpty: () => found.length === 0,
    chosen(server) {
      if (found.length === 0) throw nothingFound(server, name);
      return found.toSorted((a, b) => ((a.path ?? "") < (b.path ?? "") ? -1 : 1));
    },
  };
}

/** The resource or the folder with a name. */
function nameChoice(name: string, filter: NameFilter): Choice {
  const readable = readableUri(name);
  const folder = belowChoice(`${name}/`, name.length + 1, false, filter);
  const atPath: string[] = [];
  const alike: string[] = [];
  return {
    isExact: false,
    look(resource, resourceText) {
      const path = pathOfReadable(resourceText);
      const isLike = path.endsWith(`/${readable}`) || resource.name === name;
      if (path === readable) atPath.push(resource.uri);
      else if (isLike && alike.length < maxAlike) alike.push(resource.uri);
      return folder.look(resource, resourceText);
    },
    isEmpty: () => atPath.length + alike.length === 0 && folder.isEmpty(),
    chosen(server) {
      const [uri, another] = atPath.length > 0 ? atPath : alike;
      if (this.isEmpty()) throw nothingFound(server, name);
      if (uri === undefined) return folder.chosen(server);
      if (another === undefined) return [{ uri }];
      throw fault(
        "invalid_argument",
        `several resources are named ${name}: ${printable([uri, another].join(", "))}`,
        "name one by its URI",
      );
    },
  };
}

/** One is meant, two are too many. */
const maxAlike = 2;

function chosenBelow({ uri, size, lastModified }: ListedResource, below: string): ChosenResource {
  return {
    uri,
    path: localPath(below),
    ...(size !== undefined && { size }),
    ...(lastModified !== undefined && { lastModified }),
  };
}

/** The fault of a server whose list has nothing that an argument could mean. */
export function nothingFound(server: string, name: string): Advice {
  return fault(
    "not_found",
    `${server} lists nothing for ${JSON.stringify(name)}`,
    "see what is there with `sluice ls`",
  );
}

/**
 * The resources below a URI that is not that of a resource: a folder that was named without `/`. Throws `missing` if there are
 * none.
 */
export async function chooseBelow(
  connection: ClientConnection,
  uri: string,
  options: ChoiceOptions,
  missing: unknown,
): Promise<readonly ChosenResource[]> {
  const chosen = await chooseResources(connection, [`${uri}/`], options).catch(() => undefined);
  connection.signal.throwIfAborted();
  if (!chosen) throw missing;
  return chosen;
}
