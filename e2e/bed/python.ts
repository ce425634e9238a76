import { spawnSync } from "node:child_process";

/**
 * The path of a Python that has these packages: `SLUICE_PYTHON`, or the one on the PATH. A lack of it is
 * printed.
 */
export function findPython(...packages: readonly string[]): string | undefined {
  const path = process.env["SLUICE_PYTHON"] ?? "python3";
  const names = packages.map((name) => `"${name}"`).join(", ");
  const asks = `from importlib.util import find_spec; assert all(map(find_spec, [${names}]))`;
  if (spawnSync(path, ["-c", asks], { stdio: "ignore" }).status === 0) return path;
  console.log(
    `no Python with ${packages.join(", ")}: not tried (pip install ${packages.join(" ")}, and SLUICE_PYTHON where that is)`,
  );
  return undefined;
}
