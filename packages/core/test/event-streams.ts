/** An event as HTML (section 9.2.6) has it dispatched: with its data, and the id that it sets. */
interface DispatchedEvent {
  readonly type: string;
  readonly data: string;
  readonly id?: string;
}

/** A stream of server-sent events, and what a reader makes of it. */
export interface EventStreamCase {
  readonly name: string;
  readonly text: string;
  readonly events: readonly DispatchedEvent[];
  /** Where a reader resumes after the stream; empty: nowhere. */
  readonly lastEventId: string;
}

/** Each line is one stream; a reader of ours has to agree with all of them. */
export const eventStreams: readonly EventStreamCase[] = (
  [
    ["a message", "data: 1\n\n", [["message", "1"]], ""],
    ["a message with an id", "id: a\ndata: 1\n\n", [["message", "1", "a"]], "a"],
    ["a priming event of MCP", "id: a\ndata:\n\n", [["message", "", "a"]], "a"],
    ["an event with only an id", "id: a\n\n", [], "a"],
    ["an event with only an id, of CRLF", "id: a\r\n\r\n", [], "a"],
    ["an event with only an id, of CR", "id: a\r\r", [], "a"],
    ["an event with only an id after a BOM", "\ufeffid: a\n\n", [], "a"],
    ["an event with an id and a comment", "id: a\n: hello\n\n", [], "a"],
    ["an event with an id and a type", "event: x\nid: a\n\n", [], "a"],
    ["an event with an id and a retry", "id: a\nretry: 5\n\n", [], "a"],
    ["an id that a later event has not", "id: a\n\ndata: 1\n\n", [["message", "1"]], "a"],
    ["an id with an empty one after it", "id: a\n\nid:\n\n", [], ""],
    ["an id without a colon after one with", "id: a\n\nid\n\n", [], ""],
    ["two ids in one event", "id: a\nid: b\ndata: 1\n\n", [["message", "1", "b"]], "b"],
    ["an id with a NUL", "id: a\0\ndata: 1\n\n", [["message", "1"]], ""],
    ["an id that the end cuts off", "data: 1\n\nid: a\n", [["message", "1"]], ""],
    ["a name that only begins like an id", "ids: a\n\n", [], ""],
    ["a type", "event: x\ndata: 1\n\n", [["x", "1"]], ""],
    ["an empty type", "event:\ndata: 1\n\n", [["message", "1"]], ""],
    ["a type with an empty one after it", "event: x\nevent:\ndata: 1\n\n", [["message", "1"]], ""],
    [
      "a type without a colon after one with",
      "event: x\nevent\ndata: 1\n\n",
      [["message", "1"]],
      "",
    ],
    ["a type that a later event has not", "event: x\n\ndata: 1\n\n", [["message", "1"]], ""],
    ["data in two lines", "data: 1\ndata: 2\n\n", [["message", "1\n2"]], ""],
    ["data without a colon", "data\n\n", [["message", ""]], ""],
    ["a name that only begins like data", "datax: 1\n\n", [], ""],
    ["comments", ": 1\n\n: 2\n\n", [], ""],
  ] satisfies [string, string, [string, string, string?][], string][]
).map(([name, text, events, lastEventId]) => ({
  name,
  text,
  events: events.map(([type, data, id]) => ({ type, data, ...(id !== undefined && { id }) })),
  lastEventId,
}));
