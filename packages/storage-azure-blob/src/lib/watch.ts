import { setMaxListeners } from "node:events";
import { SluiceError } from "@sluice/core";
import { backgroundClock, sleep } from "@sluice/core/internal";
import {
  type ChangeFeed,
  checkKey,
  createEventOrder,
  createEventWatch,
  type Watches,
} from "@sluice/storage/plugin";
import { type BlobRoot, callAzure, toKey } from "./blob-call.ts";

const watchOperation = "azure-blob: watch";
/** Largest batch of a storage queue. */
const maxMessages = 32;

/** A message as a storage queue gives it. */
export interface QueuedMessage {
  readonly messageId: string;
  readonly popReceipt: string;
  readonly messageText: string;
}

/**
 * The queue that an Event Grid subscription of the storage account delivers to. A `QueueClient` of
 * `@azure/storage-queue` fits as it is. Each process needs its own queue: a message goes to one
 * reader.
 */
export interface EventQueue {
  receiveMessages(options: {
    readonly numberOfMessages: number;
    readonly abortSignal: AbortSignal;
  }): Promise<{ readonly receivedMessageItems: readonly QueuedMessage[] }>;
  deleteMessage(
    messageId: string,
    popReceipt: string,
    options: { readonly abortSignal: AbortSignal },
  ): Promise<unknown>;
}

/** Creates the watches of a root. One reader of the queue serves all of them; without a watch the queue is not read. */
export function watchBlobs(root: BlobRoot, queue: EventQueue, pollIntervalMs: number): Watches {
  // sequencers of one blob sort as text in the order of its changes
  const isNew = createEventOrder((sequencer, than) => sequencer > than);

  const publish = (feed: ChangeFeed, change: BlobChange): void => {
    if (change.kind === "lost") feed.reset();
    else if (isNew(change.key, change.sequencer)) feed.publish(change.key, change.kind);
  };
  const readOnce = async (feed: ChangeFeed, signal: AbortSignal): Promise<boolean> => {
    const { receivedMessageItems: messages } = await callAzure(
      { operation: watchOperation, signal },
      (abortSignal) => queue.receiveMessages({ numberOfMessages: maxMessages, abortSignal }),
    );
    for (const { messageText } of messages)
      for (const change of parseMessage(messageText, root)) publish(feed, change);
    // deleted only after publishing: what a crash or a failed delete leaves is delivered again
    await Promise.allSettled(
      messages.map(({ messageId, popReceipt }) =>
        callAzure({ operation: watchOperation, signal }, (abortSignal) =>
          queue.deleteMessage(messageId, popReceipt, { abortSignal }),
        ),
      ),
    );
    return messages.length > 0;
  };

  return createEventWatch("azure-blob", async (feed, signal) => {
    // each message of a batch is deleted by its own request, and all of them listen
    setMaxListeners(maxMessages, signal);
    while (!signal.aborted) {
      let pauseMs = pollIntervalMs;
      try {
        if (await readOnce(feed, signal)) continue;
      } catch (error) {
        if (!SluiceError.is(error) || !error.retryable) throw error;
        // messages wait in the queue, so nothing is lost
        pauseMs = Math.max(pollIntervalMs, error.retryAfterMs ?? 0);
      }
      await sleep(pauseMs, signal, backgroundClock);
    }
  });
}

/** The changes that an event reports in this root; `lost` when something changed and it cannot be said what. */
type BlobChange =
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
/** Events of accounts with real folders. They replace the events of the blobs below. */
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

/** True if the folder lies in the root, contains it, or cannot be compared. */
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
