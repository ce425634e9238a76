import { fault } from "../terminal/failure.ts";

/** Throws what is wrong with a storage URL, or with its plugin, together with what to write or install. */
export function refuseStorage(error: unknown): never {
  if (!(error instanceof TypeError)) throw error;
  const { message } = error;
  const end = message.lastIndexOf("; ");
  const [what, advice] =
    end < 0
      ? [message, "see `sluice help serve`"]
      : [message.slice(0, end), message.slice(end + 2)];
  throw fault("invalid_argument", what, advice);
}
