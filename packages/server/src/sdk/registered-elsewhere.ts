import {
  UriTemplate,
  type ListResourcesResult,
  type ListResourceTemplatesResult,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { askHandler, handlerOf } from "./sdk-handlers.ts";

/** Says whether a resource outside of the base URI is one that the author lists or has a template for. */
export type IsElsewhere = (uri: string, ctx: ServerContext) => Promise<boolean>;

/** Pages of a list that are looked through. */
const maxPages = 10;

/**
 * Makes that question, for a server whose lists are still the author's alone. Nothing is read: what the lists leave out,
 * such as a disabled resource, does not exist.
 */
export function findElsewhere({ server }: McpServer): IsElsewhere {
  const list = handlerOf(server, "resources/list");
  const listTemplates = handlerOf(server, "resources/templates/list");

  async function hasTemplate(uri: string, ctx: ServerContext): Promise<boolean> {
    const answer = await askHandler(listTemplates, "resources/templates/list", {}, ctx);
    const { resourceTemplates } = answer as ListResourceTemplatesResult;
    return resourceTemplates.some(
      ({ uriTemplate }) => new UriTemplate(uriTemplate).match(uri) !== null,
    );
  }

  async function isListed(uri: string, ctx: ServerContext): Promise<boolean> {
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page++) {
      const params = cursor === undefined ? {} : { cursor };
      const answer = await askHandler(list, "resources/list", params, ctx);
      const { resources, nextCursor } = answer as ListResourcesResult;
      if (resources.some((resource) => isSame(resource.uri, uri))) return true;
      if (nextCursor === undefined) return false;
      cursor = nextCursor;
    }
    return false;
  }

  return async (uri, ctx) => (await hasTemplate(uri, ctx)) || (await isListed(uri, ctx));
}

/** The SDK finds a resource by its URI as a URL is written. */
function isSame(listed: string, uri: string): boolean {
  return listed === uri || (URL.canParse(uri) && listed === new URL(uri).href);
}
