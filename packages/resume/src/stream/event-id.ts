/** A position in a stream. */
export interface StreamPosition {
  readonly streamId: string;
  /** Number of the event behind which it is; 0 is the beginning. */
  readonly seq: number;
}

/** Makes the id of a stream. The search makes it one flat string: Node builds a UUID of 14 pieces. */
export function newStreamId(): string {
  const id = crypto.randomUUID();
  id.search(/$/);
  return id;
}

/** A position as the id of an event. */
export function formatEventId({ streamId, seq }: StreamPosition): string {
  return `${streamId}/${seq}`;
}

/** The position that an event id of ours names; `undefined` for others. */
export function parseEventId(id: string | null): StreamPosition | undefined {
  const [, streamId = "", seq = ""] = eventId.exec(id ?? "") ?? [];
  return streamId === "" ? undefined : { streamId, seq: Number(seq) };
}

/** Length of the id of a stream. */
export const streamIdLength = 36;

/** True for ids of {@link newStreamId}. */
export function isStreamId(text: string): boolean {
  return streamId.test(text);
}

const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
const streamId = new RegExp(`^${uuid}$`);
const eventId = new RegExp(`^(${uuid})/(\\d{1,9})$`);
