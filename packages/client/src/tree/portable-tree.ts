import { needsNode } from "../net/needs-node.ts";
import type { SaveTree } from "./tree-options.ts";

/**
 * Saves resources as files below a folder. In Node and Bun; this portable code has no file system, and rejects with
 * `unsupported` before anything is requested.
 */
export const saveTree: SaveTree = async () => {
  throw needsNode("saving");
};
