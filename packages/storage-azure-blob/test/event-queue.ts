import type { EventQueue, QueuedMessage } from "@sluice/storage-azure-blob";

/** A storage queue in memory, with messages as of Event Grid. */
export interface MemoryQueue extends EventQueue {
  /** Puts a message there as Event Grid does: base64 of one event. */
  put(event: object): void;
  /** Puts a message there as it is. */
  putText(text: string): void;
  /** Messages that are there and not deleted. */
  count(): number;
}

/** Creates an empty queue. A message that is not deleted is given again. */
export function createMemoryQueue(): MemoryQueue {
  const messages = new Map<string, QueuedMessage>();
  let put = 0;
  const putText = (messageText: string): void => {
    const messageId = String(++put);
    messages.set(messageId, { messageId, popReceipt: `receipt ${messageId}`, messageText });
  };
  return {
    put: (event) => putText(Buffer.from(JSON.stringify(event)).toString("base64")),
    putText,
    count: () => messages.size,
    async receiveMessages({ numberOfMessages }) {
      return { receivedMessageItems: [...messages.values()].slice(0, numberOfMessages) };
    },
    async deleteMessage(messageId, popReceipt) {
      if (messages.get(messageId)?.popReceipt === popReceipt) messages.delete(messageId);
    },
  };
}

let sequence = 0;

/** The event of one change, in the schema of Event Grid, newer than all before it. */
export function blobEvent(
  type: string,
  container: string,
  name: string,
  data: object = {},
): object {
  return {
    topic: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a",
    subject: `/blobServices/default/containers/${container}/blobs/${name}`,
    eventType: `Microsoft.Storage.${type}`,
    id: crypto.randomUUID(),
    eventTime: "2026-01-01T00:00:00Z",
    data: { api: "PutBlob", sequencer: nextSequencer(), ...data },
    dataVersion: "",
    metadataVersion: "1",
  };
}

/** Sequencers are compared as text. */
export function nextSequencer(): string {
  return `000000000000000000000000000${(++sequence).toString(16).padStart(10, "0")}`;
}
