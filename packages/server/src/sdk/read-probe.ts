import type { ReadResourceResult, Server, ServerContext } from "@modelcontextprotocol/server";
import { askHandler, handlerOf } from "./sdk-handlers.ts";

/** Asks a server whether a URI comes to the template of this Sluice. */
interface ReadProbe {
  /** True when `resources/read` of this URI comes to our template, and is enabled. */
  readonly isOurs: (uri: string, ctx: ServerContext) => Promise<boolean>;
  /** True for the context of such a question: our template answers it with `probed` and reads nothing. */
  readonly isProbe: (ctx: ServerContext) => boolean;
  readonly probed: ReadResourceResult;
}

/**
 * Makes the question. The SDK alone knows which of its registered resources a URI comes to and whether it is enabled, and tells
 * it in no other way than by its handler of `resources/read`.
 */
export function createReadProbe(server: Server): ReadProbe {
  const probes = new WeakSet<ServerContext>();
  const probed: ReadResourceResult = { contents: [] };
  return {
    probed,
    isProbe: (ctx) => probes.has(ctx),
    async isOurs(uri, ctx) {
      const probe = { ...ctx };
      probes.add(probe);
      const read = handlerOf(server, "resources/read");
      const answer = askHandler(read, "resources/read", { uri }, probe);
      return (await answer.catch(() => undefined)) === probed;
    },
  };
}
