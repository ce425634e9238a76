import { SluiceError } from "@sluice/core";
import { createEventOrder, createEventWatch, type Watches } from "@sluice/storage/plugin";
import { decodeName, type S3Root } from "./root.ts";

/** One message of the queue that a bucket sends its events to. */
export interface S3EventMessage {
  /** The text of the message: an S3 event notification as JSON, bare or in an envelope of SNS. */
  readonly body: string;
}

/**
 * A queue of event notifications, such as one of SQS. Each process needs its own queue: a message
 * is given to only one reader.
 */
export interface S3EventSource {
  /** Waits for messages; none after a while is fine. An abort of the signal ends the wait. */
  receive(options: { readonly signal: AbortSignal }): Promise<readonly S3EventMessage[]>;
  /** Deletes these messages from the queue. Called once their changes were handed on. */
  ack(messages: readonly S3EventMessage[]): Promise<void>;
}

/**
 * Creates the watches of a root. The queue is read while a watch is open and keeps its messages
 * otherwise, so a watch that resumes from its cursor misses nothing, or begins with `reset`.
 */
export function watchObjects(root: S3Root, source: S3EventSource): Watches {
  const isNew = createEventOrder(isNewer);
  return createEventWatch("s3", async (feed, signal) => {
    try {
      while (!signal.aborted) {
        const messages = await source.receive({ signal });
        for (const { body } of messages) {
          const events = readEvents(body, root);
          if (events === undefined) feed.reset();
          for (const { key, change, sequencer } of events ?? [])
            if (isNew(key, sequencer)) feed.publish(key, change);
        }
        if (messages.length > 0) await source.ack(messages);
      }
    } catch (cause) {
      throw new SluiceError("unavailable", "s3: watch: the event queue failed", { cause });
    }
  });
}

/** One change of an object below the root. */
interface S3Event {
  readonly key: string;
  readonly change: "changed" | "removed";
  /** Orders the events of one key; see {@link isNewer}. Absent from some servers other than Amazon's. */
  readonly sequencer: string | undefined;
}

/** The shape of https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html, as far as it is read. */
interface EventRecord {
  readonly eventName?: string;
  readonly s3?: {
    readonly bucket?: { readonly name?: string };
    readonly object?: {
      readonly key?: string;
      readonly versionId?: string;
      readonly sequencer?: string;
    };
  };
}

/**
 * The changes in one message, without those of other buckets and outside the root; `undefined`
 * when it cannot be understood, so that something unknown may have happened.
 */
function readEvents(body: string, root: S3Root): readonly S3Event[] | undefined {
  try {
    return toEvents(body, root);
  } catch {
    // not JSON, or of another shape at some depth
    return undefined;
  }
}

function toEvents(body: string, root: S3Root): readonly S3Event[] | undefined {
  const message = JSON.parse(body) as Readonly<Record<string, unknown>> | undefined;
  // a topic of SNS, which feeds several queues, wraps the notification
  if (message?.["Type"] === "Notification") return toEvents(String(message["Message"]), root);
  // S3 sends one when notifications are set up
  if (message?.["Event"] === "s3:TestEvent") return [];
  const records = message?.["Records"];
  if (!Array.isArray(records)) return undefined;
  const events: S3Event[] = [];
  for (const { eventName = "", s3 = {} } of records as readonly EventRecord[]) {
    if (s3.bucket?.name !== root.bucket) continue;
    const change = toChange(eventName, s3.object?.versionId !== undefined);
    if (change === undefined) continue;
    const name = decodeName(s3.object?.key ?? "");
    if (name === undefined) return undefined;
    const key = root.toKey(name);
    const sequencer = s3.object?.sequencer?.toUpperCase();
    if (key !== undefined) events.push({ key, change, sequencer });
  }
  return events;
}

/** Whether a sequencer comes after another of the same key: the shorter one is filled up with zeros at its end. */
function isNewer(sequencer: string, than: string): boolean {
  const length = Math.max(sequencer.length, than.length);
  const comparable = (text: string): string => text.padEnd(length, "0");
  return comparable(sequencer) > comparable(than);
}

function toChange(eventName: string, hasVersion: boolean): S3Event["change"] | undefined {
  const [, kind, detail] = /^(?:s3:)?(\w+):(\w+)/.exec(eventName) ?? [];
  if (kind === "ObjectCreated" || kind === "ObjectRestore") return "changed";
  // one version is gone, perhaps an old one: `describe` shows whether the object is
  if (kind === "ObjectRemoved" && detail === "Delete" && hasVersion) return "changed";
  if (kind === "ObjectRemoved" || kind === "LifecycleExpiration") return "removed";
  return undefined;
}
