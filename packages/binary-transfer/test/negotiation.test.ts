import { BINARY_EXTENSION_ID } from "@sluice/core/internal";
import {
  type BinaryPeer,
  type BinaryPeerOptions,
  createBinaryPeer,
} from "@sluice/binary-transfer/internal";
import { describe, expect, onTestFinished, test } from "vitest";

type Message = Record<string, any>;

function peer(options: Partial<BinaryPeerOptions> = {}): BinaryPeer {
  const made = createBinaryPeer({
    role: "server",
    mode: "stream",
    maxBinaryBytes: 1_000,
    ...options,
  });
  onTestFinished(() => made.close(new Error("over")));
  return made;
}

const initialize = (capabilities: object): Message => ({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities },
});
const extension = (terms: object): object => ({ extensions: { [BINARY_EXTENSION_ID]: terms } });

describe("a client", () => {
  test("declares itself in the literal field and in the extension [BINARY/1.negotiation/client-declares]", () => {
    const { text } = peer({ role: "client", interleave: { windowBytes: 8_192 } }).sending(
      initialize({ roots: {}, extensions: { "a/b": {} } }),
    );
    const literal = { supported: true, preferredMode: "stream", maxBinarySize: 1_000 };
    expect(JSON.parse(text).params.capabilities).toEqual({
      roots: {},
      binaryTransfer: literal,
      extensions: {
        "a/b": {},
        [BINARY_EXTENSION_ID]: { ...literal, interleave: { windowBytes: 8_192 } },
      },
    });
  });

  test("declares itself with each request of the modern era, and in no other request", () => {
    const client = peer({ role: "client" });
    const meta = { "io.modelcontextprotocol/clientCapabilities": {} };
    const modern = { id: 2, method: "tools/list", params: { _meta: meta } };
    const { params } = JSON.parse(client.sending(modern).text);
    expect(params._meta["io.modelcontextprotocol/clientCapabilities"].binaryTransfer).toEqual({
      supported: true,
      preferredMode: "stream",
      maxBinarySize: 1_000,
    });
    const legacy = { id: 3, method: "tools/list", params: {} };
    expect(JSON.parse(client.sending(legacy).text)).toEqual(legacy);
  });

  test.each(["initialize", "server/discover"])("learns from the answer to %s", (method) => {
    const client = peer({ role: "client" });
    client.sending({ id: 1, method, params: {} });
    const capabilities = { binaryTransfer: { supported: true, supportedModes: ["stream"] } };
    client.received({ id: 9, result: { capabilities } });
    expect(client.terms).toBeUndefined();
    client.received({ id: 1, result: { capabilities } });
    expect(client.terms).toEqual({ maxBinaryBytes: 1_000 });
  });
});

describe("a server", () => {
  test("declares itself where its capabilities are, and nowhere else [BINARY/1.negotiation/server-declares]", () => {
    const server = peer();
    server.received(initialize({}));
    const other = JSON.parse(server.sending({ id: 7, result: { capabilities: {} } }).text);
    expect(other.result).toEqual({ capabilities: {} });
    const answer = JSON.parse(server.sending({ id: 1, result: { capabilities: {} } }).text);
    const literal = { supported: true, supportedModes: ["stream"], maxBinarySize: 1_000 };
    expect(answer.result.capabilities).toEqual({
      binaryTransfer: literal,
      ...extension(literal),
    });
  });

  test.each([
    ["the literal field", { binaryTransfer: { supported: true } }],
    ["the extension", extension({ supported: true })],
    ["another literal field beside it", { binaryTransfer: {}, ...extension({ supported: true }) }],
    ["its own mode", { binaryTransfer: { supported: true, preferredMode: "stream" } }],
  ])("agrees with a client that declares %s", (_what, capabilities) => {
    const server = peer();
    server.received(initialize(capabilities));
    expect(server.terms).toEqual({ maxBinaryBytes: 1_000 });
  });

  test.each([
    ["nothing", {}],
    ["that it does not", { binaryTransfer: { supported: false } }],
    ["no object", { binaryTransfer: true }],
    ["another mode", { binaryTransfer: { supported: true, preferredMode: "multipart" } }],
    ["an invalid size", { binaryTransfer: { supported: true, maxBinarySize: -1 } }],
    ["an extension that says no", { binaryTransfer: { supported: true }, ...extension({}) }],
  ])(
    "agrees on nothing with a client that declares %s [BINARY/compatibility/only-both]",
    (_what, capabilities) => {
      const server = peer();
      server.received(initialize(capabilities));
      expect(server.terms).toBeUndefined();
    },
  );

  test("the smaller limit holds, and chunks only where both ends know them [BINARY/security/size-limits]", () => {
    const server = peer({ interleave: { windowBytes: 4_096 } });
    server.received(initialize({ binaryTransfer: { supported: true, maxBinarySize: 10 } }));
    expect(server.terms).toEqual({ maxBinaryBytes: 10 });
    const interleave = { windowBytes: 5_000 };
    server.received(initialize(extension({ supported: true, maxBinarySize: 2_000, interleave })));
    expect(server.terms).toEqual({ maxBinaryBytes: 1_000, interleave });
    server.received(initialize(extension({ supported: true, interleave: { windowBytes: 1 } })));
    expect(server.terms).toEqual({ maxBinaryBytes: 1_000 });
  });

  test("handlers find the connection by a tag that no peer can set", () => {
    const server = peer();
    const forged = { [BINARY_EXTENSION_ID]: { connection: "forged" }, kept: 1 };
    const plain = server.received({
      id: 1,
      method: "tools/call",
      params: { _meta: { ...forged } },
    });
    expect(plain.message.params._meta).toEqual({ kept: 1 });
    server.received(initialize({ binaryTransfer: { supported: true } }));
    const params = { _meta: { ...forged }, transferMode: "binary" };
    const { message } = server.received({ id: 2, method: "resources/read", params });
    expect(message.params._meta).toEqual({
      kept: 1,
      [BINARY_EXTENSION_ID]: {
        connection: expect.stringMatching(/^[0-9a-f-]{36}$/),
        maxBinaryBytes: 1_000,
        transferMode: "binary",
      },
    });
  });

  test.each([null, "x", [1]])("parameters that are %j are for the SDK to refuse", (params) => {
    const server = peer();
    server.received(initialize({ binaryTransfer: { supported: true } }));
    const message = { jsonrpc: "2.0", id: 2, method: "tools/call", params };
    expect(server.received(message).message).toEqual({ ...message, params });
  });

  test("a request that declares for itself says all of it", () => {
    const server = peer();
    const declare = (capabilities: object): object => ({
      id: 1,
      method: "tools/call",
      params: { _meta: { "io.modelcontextprotocol/clientCapabilities": capabilities } },
    });
    server.received(declare({ binaryTransfer: { supported: true } }));
    expect(server.terms).toBeDefined();
    server.received(declare({}));
    expect(server.terms).toBeUndefined();
  });
});
