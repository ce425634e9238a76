import { SluiceError, type ByteFlow } from "@sluice/core";

/** The text of a body, and the cause if it was cut off. */
interface BodyText {
  readonly text: string;
  /** `limit`: the body has more bytes · an error: the connection broke. Absent for a whole body. */
  readonly cut?: "limit" | SluiceError;
}

/** Reads the text of a body, up to a number of bytes; drops the connection for a longer one. */
export async function readText(body: ByteFlow, maxBytes: number): Promise<BodyText> {
  const decoder = new TextDecoder();
  let text = "";
  let remainingBytes = maxBytes;
  try {
    await body.pump((chunk) => {
      text += decoder.decode(chunk.subarray(0, remainingBytes), { stream: true });
      remainingBytes -= chunk.length;
      if (remainingBytes < 0) throw enough;
    });
  } catch (error) {
    if (error === enough) return { text, cut: "limit" };
    if (SluiceError.is(error)) return { text, cut: error };
    throw error;
  }
  return { text: text + decoder.decode() };
}

const enough = new Error("enough");
