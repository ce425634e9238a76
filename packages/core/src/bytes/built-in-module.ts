/**
 * A module of Node.js where the runtime has it, without an import that other runtimes would
 * refuse. `undefined` elsewhere.
 */
export function builtInModule(id: string): unknown {
  const { process } = globalThis as {
    process?: { getBuiltinModule?: (id: string) => unknown };
  };
  return process?.getBuiltinModule?.(id);
}
