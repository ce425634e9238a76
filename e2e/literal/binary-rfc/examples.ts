/** The examples of the Binary Transfer RFC, as the text has them. */

/** Section 1, `ClientCapabilities`. */
export const clientCapabilities = (mode: Mode): { readonly binaryTransfer: object } => ({
  binaryTransfer: { supported: true, preferredMode: mode, maxBinarySize: 1073741824 },
});

/** Section 1, the three modes. */
export type Mode = "stream" | "multipart" | "websocket-binary";

/** "After", content of a tool. */
export const content = {
  type: "image",
  transferMode: "binary",
  mimeType: "image/png",
  binaryRef: {
    streamId: "550e8400-e29b-41d4-a716-446655440000",
    size: 1048576,
    checksum: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  },
};

/** Section 3, option B: the boundary. */
export const boundary = "mcp-boundary";
