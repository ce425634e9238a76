/**
 * The text with `${NAME}` taken from the environment, and `${NAME:-other}` with another text where it is not set or empty.
 * Throws what `unset` makes of the name of a variable that has neither.
 */
export function withVariables(
  text: string,
  env: NodeJS.ProcessEnv,
  unset: (name: string) => Error,
): string {
  return text.replaceAll(
    /\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^{}]*))?\}/g,
    (_, name: string, other?: string) => {
      const value = env[name] || other;
      if (value !== undefined) return value;
      throw unset(name);
    },
  );
}
