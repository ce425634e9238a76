/** The examples of SEP-2532, as the text has them. */

/** Section 1. */
export const serverCapabilities = {
  resources: { stream: true, subscribe: true, listChanged: true },
};

/** Section 1. */
export const clientCapabilities = { resourceStreaming: { maxStreamSize: 1073741824 } };

/** Section 2. */
export const resource = {
  uri: "onedrive:///documents/quarterly-report.pptx",
  name: "quarterly-report.pptx",
  title: "Q1 2026 Quarterly Report",
  mimeType: "application/vnd.openxmlformats-officedocument.presentationml.presentation",
  size: 15728640,
  annotations: { audience: ["user"], priority: 0.6 },
  streamable: true,
};

/** Section 3, the header fields of a direct answer. */
export const directHeaders = {
  "Content-Type": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
  "Content-Length": "15728640",
  "Content-Disposition": 'attachment; filename="quarterly-report.pptx"',
  "MCP-Resource-Uri": "onedrive:///documents/quarterly-report.pptx",
};

/** Section 3, the path of the example's download URL. */
export const downloadPath = "/streams/a1b2c3d4-e5f6-7890-abcd-ef1234567890";

/** Section 3, errors. */
export const errors = {
  notFound: { code: -32002, message: "Resource not found" },
  notSupported: {
    code: -32003,
    message: "Stream not supported",
    data: {
      uri: "file:///small-config.json",
      suggestion: "Use resources/read for this resource",
    },
  },
  tooLarge: { code: -32004, message: "Resource too large" },
} as const;

/** Section "Open Questions", 4: the client's `Accept`. */
export const accept = "application/json, */*";
