import { ResourceTemplate, UriTemplate } from "@modelcontextprotocol/server";
import type { Mounts } from "./mounts.ts";

/** The template of all resources of a Sluice in the registry of a server; lists show those of the mounts in its place. */
export const mountsTemplate = "sluice:{+key}";

/**
 * One entry in the registry of a server for every mount: the SDK compiles and tries each template for each request, and
 * stateless servers are made for each request.
 */
export function createMountsTemplate(
  mounts: Mounts,
  complete: ConstructorParameters<typeof ResourceTemplate>[1]["complete"],
): ResourceTemplate {
  return new ResourceTemplate(
    new MountsTemplate(mounts),
    complete ? { list: undefined, complete } : { list: undefined },
  );
}

class MountsTemplate extends UriTemplate {
  readonly #mounts: Mounts;

  constructor(mounts: Mounts) {
    super(mountsTemplate);
    this.#mounts = mounts;
  }

  override match(uri: string): Record<string, string> | null {
    return this.#mounts.covers(uri) ? {} : null;
  }
}
