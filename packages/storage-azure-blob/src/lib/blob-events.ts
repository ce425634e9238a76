import { checkKey } from "@sluice/storage/plugin";
import { type BlobRoot, toKey } from "./container.ts";

/** The changes that an event reports in this root; `lost` when something changed and it cannot be said what. */
export type BlobChange =
  | {
      readonly kind: "changed" | "removed";
      readonly key: string;
      readonly sequencer: string | undefined;
    }
  | { readonly kind: "lost" };

interface StorageEvent {
  /** Event Grid schema. */
  readonly eventType?: string;
  /** CloudEvents schema. */
  readonly type?: string;
  readonly subject?: string;
  readonly data?: { readonly sequencer?: string; readonly sourceUrl?: string };
}

const lost = { kind: "lost" } satisfies BlobChange;
const renames = ["BlobRenamed", "FileRenamed"];
/** On accounts with real folders: no events come for the blobs below. */
const wholeFolders = ["DirectoryRenamed", "DirectoryDeleted"];

/**
 * The changes in one queue message: one event or an array of them, in the schema of Event Grid or as
 * CloudEvents, as JSON or as base64 of it. Any other text may have been an event: `lost`.
 */
export function parseMessage(text: string, root: BlobRoot): BlobChange[] {
  try {
    const json: unknown = JSON.parse(
      /^\s*[[{]/.test(text) ? text : Buffer.from(text, "base64").toString(),
    );
    return (Array.isArray(json) ? json : [json]).flatMap((event: StorageEvent) =>
      toChanges(event, root),
    );
  } catch {
    return [lost];
  }
}

function toChanges(event: StorageEvent, root: BlobRoot): BlobChange[] {
  const [, container, name] =
    /^\/blobServices\/default\/containers\/([^/]+)\/blobs\/(.+)$/s.exec(event.subject ?? "") ?? [];
  if (name === undefined || container !== root.container.containerName) return [];
  const type = (event.eventType ?? event.type ?? "").replace(/^Microsoft\.Storage\./, "");
  const sequencer = event.data?.sequencer || undefined;
  if (wholeFolders.includes(type)) return mayReach(root, name) ? [lost] : [];
  if (type === "BlobCreated") return toChange("changed", name, sequencer, root);
  if (type === "BlobDeleted") return toChange("removed", name, sequencer, root);
  if (!renames.includes(type)) return [];
  const source = toNameInUrl(event.data?.sourceUrl, container);
  return [
    ...(source === undefined ? [lost] : toChange("removed", source, sequencer, root)),
    ...toChange("changed", name, sequencer, root),
  ];
}

function toChange(
  kind: "changed" | "removed",
  name: string,
  sequencer: string | undefined,
  root: BlobRoot,
): BlobChange[] {
  // Event Grid is known to put U+FFFD for characters outside the BMP: then it is not the name
  if (name.includes("\ufffd")) return [lost];
  const key = toKey(root, name);
  return key === undefined ? [] : [{ kind, key, sequencer }];
}

/** True when a folder lies in the root or the root in the folder. */
function mayReach({ prefix }: BlobRoot, folder: string): boolean {
  return (
    checkKey(folder) !== undefined || prefix.startsWith(`${folder}/`) || folder.startsWith(prefix)
  );
}

/** The name of a blob in its URL, whose host differs between the two endpoints of an account. */
function toNameInUrl(url: string | undefined, container: string): string | undefined {
  if (url === undefined || !URL.canParse(url)) return undefined;
  const path = decodeURIComponent(new URL(url).pathname);
  return path.startsWith(`/${container}/`) ? path.slice(container.length + 2) : undefined;
}
