import { definedMembers } from "@sluice/core/internal";
import { isMembers, membersOf, type Members } from "../messages/messages.ts";

/** Where a tool's result says that a file goes. */
export interface UploadAddress {
  readonly url: string;
  readonly method: "PUT" | "POST";
  readonly headers?: Readonly<Record<string, string>>;
  /** Parts before the file, of a form. */
  readonly fields?: Readonly<Record<string, string>>;
  readonly maxBytes?: number;
  /** What the tool is called again with. */
  readonly uploadId?: string;
}

/**
 * Finds `upload_url` (or `uploadUrl`, `presigned_url`, `put_url`) with `method`, `headers` and `fields` in structured content.
 * A text of the result may be of anyone.
 */
export function uploadAddressIn({ structuredContent }: Members): UploadAddress | undefined {
  return addressIn(membersOf(structuredContent), 0);
}

function addressIn(members: Members, level: number): UploadAddress | undefined {
  for (const name of names) {
    const url = members[name];
    if (typeof url !== "string") continue;
    const { method, max_bytes: maxBytes, upload_id: id, uploadId } = members;
    const fields = textsOf(members["fields"]);
    const isPost =
      typeof method === "string" ? method.toUpperCase() === "POST" : fields !== undefined;
    return {
      url,
      method: isPost ? "POST" : "PUT",
      ...definedMembers({
        headers: textsOf(members["headers"]),
        fields,
        maxBytes: typeof maxBytes === "number" ? maxBytes : undefined,
        uploadId: textIn(id) ?? textIn(uploadId),
      }),
    };
  }
  if (level === maxLevels) return undefined;
  for (const value of Object.values(members)) {
    const address = isMembers(value) ? addressIn(value, level + 1) : undefined;
    if (address) return address;
  }
  return undefined;
}

const names = ["upload_url", "uploadUrl", "presigned_url", "presignedUrl", "put_url"] as const;
const maxLevels = 2;

function textIn(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function textsOf(value: unknown): Record<string, string> | undefined {
  if (!isMembers(value)) return undefined;
  const texts = Object.entries(value).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  return texts.length === 0 ? undefined : Object.fromEntries(texts);
}
