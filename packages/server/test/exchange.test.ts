import { expect, test } from "vitest";
import {
  closeReplySlot,
  Exchange,
  noteRequest,
  notesOf,
  openReplySlot,
  exchangeTiedTo,
  SHARED_REQUEST_HEADER,
} from "@sluice/server/internal";

const url = "http://127.0.0.1/mcp";

test("a request and its clones have one exchange", () => {
  const request = new Request(url);
  noteRequest(request, { address: "192.0.2.1" });
  const exchange = exchangeTiedTo(request)!;
  const slot = openReplySlot(request);
  for (const each of [request, request.clone(), request.clone().clone()])
    expect(exchangeTiedTo(each)).toBe(exchange);
  expect(exchange).toMatchObject({ request, address: "192.0.2.1", slot });
  closeReplySlot(slot);
});

test("a noted copy has the notes and the slot of the original, and does not hold the original", () => {
  const request = new Request(url);
  noteRequest(request, { address: "192.0.2.1" });
  const slot = openReplySlot(request);
  const copy = new Request(url);
  noteRequest(copy, notesOf(request));
  expect(exchangeTiedTo(copy)).toMatchObject({ address: "192.0.2.1", slot });
  expect(exchangeTiedTo(copy)?.request).toBe(copy);
  closeReplySlot(slot);
});

test("a later note replaces an earlier one, and leaves the slot", () => {
  const request = new Request(url);
  const slot = openReplySlot(request);
  noteRequest(request, { address: "192.0.2.1", isLasting: true });
  noteRequest(request, { address: "192.0.2.2" });
  expect(notesOf(request)).toMatchObject({ address: "192.0.2.2", isLasting: false, slot });
  noteRequest(request, new Exchange(new Request(url), { address: "192.0.2.3" }));
  expect(notesOf(request)).toMatchObject({ address: "192.0.2.3", slot });
  closeReplySlot(slot);
});

test("a copy of the headers leads to the exchange while a slot is open, and an id of a client to none", () => {
  const request = new Request(url, { headers: { [SHARED_REQUEST_HEADER]: "made-up" } });
  const exchange = new Exchange(request, { address: "192.0.2.1" });
  const guess = new Request(url, { headers: request.headers });
  expect(notesOf(guess)).toEqual({});
  const slot = openReplySlot(request);
  const other = new Request(url, { headers: request.headers });
  expect(notesOf(other)).toBe(exchange);
  expect(notesOf(guess)).toEqual({});
  closeReplySlot(slot);
  expect(notesOf(other)).toEqual({});
});
