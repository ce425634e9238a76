import { ResourceTemplate, UriTemplate } from "@modelcontextprotocol/server";
import type { Mounts } from "../storage/mounts.ts";

/** The template of all resources of a Sluice in the registry of a server; lists show those of the mounts in its place. */
export const mountsTemplate = "sluice:{+key}";

/** The template, and a way around it. */
export interface MountsRegistration {
  readonly template: ResourceTemplate;
  /** Calls a handler of the SDK, which looks for a template before its first pause, as if there were no mounts. */
  readonly asIfAbsent: <Answer>(call: () => Promise<Answer>) => Promise<Answer>;
}

/**
 * One entry in the registry of a server for every mount: the SDK compiles and tries each template for each request, and
 * stateless servers are made for each request.
 */
export function createMountsTemplate(
  mounts: Mounts,
  complete: ConstructorParameters<typeof ResourceTemplate>[1]["complete"],
): MountsRegistration {
  const uriTemplate = mounts.areForAll ? sharedTemplate(mounts) : new MountsTemplate(mounts);
  return {
    template: new ResourceTemplate(
      uriTemplate,
      complete ? { list: undefined, complete } : { list: undefined },
    ),
    asIfAbsent(call) {
      uriTemplate.isAbsent = true;
      try {
        return call();
      } finally {
        uriTemplate.isAbsent = false;
      }
    },
  };
}

const shared = new WeakMap<Mounts, MountsTemplate>();

/** One template for all servers, where none of them goes around it. */
function sharedTemplate(mounts: Mounts): MountsTemplate {
  let template = shared.get(mounts);
  if (!template) shared.set(mounts, (template = new MountsTemplate(mounts)));
  return template;
}

class MountsTemplate extends UriTemplate {
  readonly #mounts: Mounts;
  isAbsent = false;

  constructor(mounts: Mounts) {
    super(mountsTemplate);
    this.#mounts = mounts;
  }

  override match(uri: string): Record<string, string> | null {
    return !this.isAbsent && this.#mounts.covers(uri) ? {} : null;
  }
}
