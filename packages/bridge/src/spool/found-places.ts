import { fileNameFromUri } from "@sluice/core/internal";
import { dataMembers, maxLevels } from "./scan/string-scanner.ts";

/** Where a value of a message that stands for a file lies. */
export interface FoundPlace {
  readonly marker: string;
  /** The object or array around it. */
  readonly holder: Readonly<Record<string, unknown>>;
  /** Set where JSON-RPC or MCP itself reads the value: it names this member. */
  readonly protocolMember?: string;
}

/** Finds the values of a message that are one of `markers`. */
export function findPlaces(message: unknown, markers: ReadonlySet<string>): FoundPlace[] {
  const places: FoundPlace[] = [];
  // most messages have none, and may have millions of values
  if (markers.size === 0) return places;
  const path: string[] = [];
  const visit = (value: unknown): void => {
    if (!isObject(value) || path.length > maxLevels) return;
    for (const member of Object.keys(value)) {
      const inner = value[member];
      path.push(member);
      if (isObject(inner)) visit(inner);
      else if (typeof inner === "string" && markers.has(inner))
        places.push(
          isProtocol(path)
            ? { marker: inner, holder: value, protocolMember: member }
            : { marker: inner, holder: value },
        );
      path.pop();
    }
  };
  visit(message);
  return places;
}

/** Name for the file of a value, from what lies beside it. Another party chose it. */
export function nameHintOf({ holder }: FoundPlace): string | undefined {
  const { uri } = holder;
  return typeof uri === "string" ? fileNameFromUri(uri) : undefined;
}

/** True for a place that MCP has for base64. */
export function isOfBytes({ marker, holder: { blob, data } }: FoundPlace): boolean {
  return blob === marker || data === marker;
}

/** The media type that lies beside a value. */
export function mimeTypeOf(holder: Readonly<Record<string, unknown>>): string | undefined {
  const { mimeType } = holder;
  return typeof mimeType === "string" ? mimeType : undefined;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** True for `jsonrpc`, `id`, `method`, `error.message`, and for `uri` and `name` where MCP gives them their meaning. */
function isProtocol(path: readonly string[]): boolean {
  const member = path.at(-1) as string;
  if (path.length === 1) return true;
  if (path[0] === "error") return path.length === 2 && member === "message";
  if (member !== "uri" && member !== "name") return false;
  return !path.slice(0, -1).some((outer) => dataMembers.has(outer));
}
