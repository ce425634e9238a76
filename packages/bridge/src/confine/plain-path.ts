import { isPlainPath, SluiceError } from "@sluice/core";

/** The same for a file that is there: one of the user may begin with `-` or `~`. */
export function namesOfOwn(path: string): readonly string[] {
  namesOf(path.replaceAll(/(^|\/)[-~]/g, "$1_"));
  return path.split("/");
}

/**
 * The names in a relative path. Throws `invalid_argument` for one that leads out of its folder or into a hidden one, and
 * for names that a file must not have.
 */
export function namesOf(path: string): readonly string[] {
  const names = path.split("/");
  if (isPlainPath(path) && names.length <= mostNames) return names;
  throw new SluiceError(
    "invalid_argument",
    "bridge: pass a path such as reports/2026.pdf: relative, without .., hidden names and special characters",
  );
}

const mostNames = 16;
