import type { Command } from "commander";

/** Shells that completion is made for. */
export const shells = ["bash", "zsh", "fish"] as const;

/** A shell that completion is made for. */
export type Shell = (typeof shells)[number];

/** A command as a shell completes it. */
interface CompletedCommand {
  /** Its words: `["keys", "new"]`; none for the program itself. */
  readonly path: readonly string[];
  readonly description: string;
  /** Words that may follow: commands, and what its first argument may be. */
  readonly words: readonly string[];
  readonly options: readonly CompletedOption[];
}

interface CompletedOption {
  readonly long: string;
  readonly short?: string | undefined;
  readonly description: string;
  /** A value follows it. */
  readonly hasValue: boolean;
}

/** The script of a shell that completes the words of a program: made from its own definitions, so it knows every option. */
export function completionScript(shell: Shell, program: Command): string {
  const commands = [...commandsOf(program, [])];
  const name = program.name();
  if (shell === "fish") return fishScript(name, commands);
  const bash = bashScript(name, commands);
  return shell === "bash" ? bash : `autoload -U +X bashcompinit && bashcompinit\n${bash}`;
}

function* commandsOf(command: Command, path: readonly string[]): Generator<CompletedCommand> {
  const choices = command.registeredArguments[0]?.argChoices ?? [];
  yield {
    path,
    description: command.description(),
    words: [...command.commands.map((inner) => inner.name()), ...choices],
    options: command.options.map(({ long, short, description, required, optional }) => ({
      long: long ?? "",
      short,
      description,
      hasValue: required || optional,
    })),
  };
  for (const inner of command.commands) yield* commandsOf(inner, [...path, inner.name()]);
}

/** Where there is nothing to complete, and after an option with a value, bash completes files. */
function bashScript(name: string, commands: readonly CompletedCommand[]): string {
  const paths = commands.filter(({ path }) => path.length > 0).map(({ path }) => keyOf(path));
  const withValue = new Set(
    commands.flatMap(({ options }) => options.filter((each) => each.hasValue).map(longOf)),
  );
  const cases = commands.map(
    ({ path, words, options }) =>
      `    "${keyOf(path)}") words="${words.join(" ")}" options="${options.map(longOf).join(" ")}" ;;`,
  );
  return `_${name}() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} path="" words="" options="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path \${COMP_WORDS[i]}" in
      ${paths.map((path) => `"${path}"`).join(" | ")}) path="$path \${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path" in
${cases.join("\n")}
  esac
  COMPREPLY=()
  case "$before" in
    ${[...withValue].join(" | ")}) return ;;
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
  esac
}
complete -o default -F _${name} ${name}
`;
}

/** The words of a path, each after a space. */
function keyOf(path: readonly string[]): string {
  return path.map((word) => ` ${word}`).join("");
}

function longOf({ long }: CompletedOption): string {
  return long;
}

function fishScript(name: string, commands: readonly CompletedCommand[]): string {
  const lines = commands.flatMap(({ path, words, options }) => {
    const condition = fishCondition(path, words);
    const isGroup = words.length > 0;
    const described = words.map((word) => {
      const inner = commands.find((each) => keyOf(each.path) === keyOf([...path, word]));
      return `complete -c ${name} ${condition} -f -a ${word} -d ${fishText(inner?.description ?? "")}`;
    });
    const flags = options.map(({ long, short, description, hasValue }) =>
      [
        `complete -c ${name} ${fishCondition(path, isGroup && path.length === 0 ? words : [])}`,
        `-l ${long.slice(2)}`,
        ...(short === undefined ? [] : [`-s ${short.slice(1)}`]),
        ...(hasValue ? ["-r"] : []),
        `-d ${fishText(description)}`,
      ].join(" "),
    );
    return [...described, ...flags];
  });
  return `${lines.join("\n")}\n`;
}

/** True in a command line with the words of a path, and none of those that may follow. */
function fishCondition(path: readonly string[], next: readonly string[]): string {
  const seen = path.map((word) => `__fish_seen_subcommand_from ${word}`);
  const others = next.length > 0 ? [`not __fish_seen_subcommand_from ${next.join(" ")}`] : [];
  const tests = [...seen, ...others];
  return tests.length === 0 ? "" : `-n ${fishText(tests.join("; and "))}`;
}

function fishText(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
