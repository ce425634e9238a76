/** The examples of SEP-1306, as the text has them. */

/** Section 1. */
export const clientCapabilities = {
  elicitation: {
    form: {},
    url: {},
    binary: { maxFileSize: 104857600, supportedMimeTypes: ["*/*"] },
  },
};

/** Section 2, the parameters of `elicitation/create`. */
export const request = {
  mode: "binary",
  message: "Please upload an image for analysis",
  requestedSchema: {
    type: "object",
    properties: {
      imageFile: {
        type: "file",
        title: "Image File",
        description: "Select an image file to analyze",
        accept: ["image/*"],
        maxSize: 5242880,
        required: true,
      },
      description: {
        type: "string",
        title: "Description",
        description: "Optional description of the image",
        maxLength: 500,
      },
    },
    required: ["imageFile"],
  },
  uploadEndpoints: {
    imageFile: {
      url: "https://server.example.com/mcp/upload/session-abc123",
      method: "POST",
      uploadId: "550e8400-e29b-41d4-a716-446655440000",
    },
  },
};

/** Section 3, the result of a client that accepts. */
export const accepted = {
  action: "accept",
  content: {
    imageFile: {
      name: "sunset.jpg",
      size: 2097152,
      mimeType: "image/jpeg",
      uploadId: "550e8400-e29b-41d4-a716-446655440000",
    },
    description: "A beautiful sunset over the ocean",
  },
};

/** Section 3, the result of a client that declines. */
export const declined = { action: "decline" };

/** Section 5, the body of an upload: field, name, type of the part. */
export const part = {
  boundary: "----WebKitFormBoundary7MA4YWxkTrZu0gW",
  field: "file",
  filename: "sunset.jpg",
  type: "image/jpeg",
};

/** Section 5, the answer of the upload endpoint. */
export const completed = {
  uploadId: "550e8400-e29b-41d4-a716-446655440000",
  status: "completed",
};
