/** An item as a path of the API names it. */
interface ItemAddress {
  /** Where the path begins; the root of the drive when absent. */
  readonly id: string | undefined;
  readonly segments: readonly string[];
  /** What is asked of the item: "", "/children" … */
  readonly action: string;
}

/** `/root`, `/items/{id}`, each with `:/{path}` behind it, and what is asked of the item. */
export function parseAddress(rest: string): ItemAddress | undefined {
  const [, anchor = "", tail = ""] = /^\/(root|items\/[^/:]+)((?:[/:].*)?)$/s.exec(rest) ?? [];
  if (anchor === "") return undefined;
  const id = anchor === "root" ? undefined : decodeURIComponent(anchor.slice("items/".length));
  if (!tail.startsWith(":")) return { id, segments: [], action: tail };
  const [, path = "", action = ""] = /^:\/([^:]+)(?::(\/.+)?)?$/.exec(tail) ?? [];
  if (path === "") return undefined;
  try {
    return { id, segments: path.split("/").map((name) => decodeURIComponent(name)), action };
  } catch {
    return undefined;
  }
}
