import { expect, test } from "vitest";
import { findPlaces } from "../src/spool/found-places.ts";

const marker = "spooled:1";

test("a value is found with what is around it, and where MCP reads it", () => {
  const resource = { uri: marker, data: marker };
  const structuredContent = { list: [{ uri: marker }] };
  const message = {
    id: marker,
    result: { content: [{ type: "resource", resource }, "other"], structuredContent },
  };
  expect(findPlaces(message, new Set([marker]))).toEqual([
    { marker, holder: message, protocolMember: "id" },
    { marker, holder: resource, protocolMember: "uri" },
    { marker, holder: resource },
    { marker, holder: structuredContent.list[0] },
  ]);
});

test("a message is not gone through where there is nothing to find", () => {
  const values = new Proxy([], {
    ownKeys: () => {
      throw new Error("its values were looked at");
    },
  });
  expect(findPlaces({ result: values }, new Set())).toEqual([]);
});
