import mime from "mime";
import { createRecentEntries, extensionOf, parseMediaType } from "@sluice/core/internal";
import { membersOf, type Members } from "../messages/messages.ts";

/** Types that say nothing of a name: bytes of any kind, and texts such as LICENSE. */
const plainTypes: ReadonlySet<string> = new Set(["application/octet-stream", "text/plain"]);

/**
 * Media types of resources by their URIs, as the server's lists and links have them: 1,000 of them. The type of the
 * response counts more, unless it is only `application/octet-stream`: downloads have that for safety.
 */
export class DeclaredTypes {
  readonly #types = createRecentEntries<string>(1_000, 2 ** 20);

  /** Learns from a list of resources, and from the links in the result of a tool. */
  learn({ resources, content }: Members): void {
    const listedResources = Array.isArray(resources) ? (resources as unknown[]).map(membersOf) : [];
    const blocks = Array.isArray(content) ? (content as unknown[]).map(membersOf) : [];
    for (const { uri, mimeType } of [
      ...listedResources,
      ...blocks.filter(({ type }) => type === "resource_link"),
    ])
      if (typeof uri === "string" && typeof mimeType === "string")
        this.#types.set(uri, mimeType, uri.length + mimeType.length);
  }

  /** A file's name, with the usual extension of its type if it has none. `answered`: the type of the response. */
  nameOf(name: string, uri: string, answered: unknown): string {
    if (name.startsWith(".") || extensionOf(name) !== "") return name;
    const answeredType = typeof answered === "string" ? essenceOf(answered) : undefined;
    const type =
      answeredType === undefined || answeredType === "application/octet-stream"
        ? essenceOf(this.#types.get(uri))
        : answeredType;
    if (type === undefined || plainTypes.has(type)) return name;
    const extension = mime.getExtension(type);
    return extension === null ? name : `${name.replace(/\.$/, "")}.${extension}`;
  }
}

function essenceOf(type: string | undefined): string | undefined {
  return parseMediaType(type)?.essence;
}
