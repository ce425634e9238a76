import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Whether the module of this URL is the program that Node runs, even if links lead to it. */
export function isMain(url) {
  const [, file] = process.argv;
  return file !== undefined && realpathSync(file) === fileURLToPath(url);
}
