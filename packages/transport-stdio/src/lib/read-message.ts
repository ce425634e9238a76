import { parseJson, SluiceError } from "@sluice/core";

/** Reads one line as a JSON-RPC message. What is in it is for the SDK to check. Throws `protocol`. */
export function readMessage(text: string): object {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (error) {
    throw new SluiceError(
      "protocol",
      "stdio: a line that is no JSON, or is nested deeper than 128 levels",
      { cause: error },
    );
  }
  if (typeof value === "object" && value !== null && "jsonrpc" in value) return value;
  throw new SluiceError("protocol", "stdio: a line that is no JSON-RPC message");
}
