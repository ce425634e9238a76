/**
 * The JSON-RPC response to the request `id` in a stream of server-sent events; `undefined` when
 * the stream ends without one. The rest of the stream is cancelled.
 */
export async function answerIn(
  body: ReadableStream<Uint8Array>,
  id: string | number,
): Promise<unknown> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return undefined;
      text += decoder.decode(value, { stream: true });
      const events = text.split(/\r?\n\r?\n/);
      text = events.pop()!;
      for (const event of events) {
        const message = parseData(event);
        if (message?.id === id && ("result" in message || "error" in message)) return message;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parseData(event: string): Record<string, unknown> | undefined {
  const data = event
    .split(/\r?\n/)
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice("data:".length).trimStart())
    .join("\n");
  if (data === "") return undefined;
  try {
    const message: unknown = JSON.parse(data);
    return typeof message === "object" && message !== null
      ? (message as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
