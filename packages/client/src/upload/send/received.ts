import { SluiceError } from "@sluice/core";
import { isNumber, isOptional, isShaped, isText } from "../../calls/shape.ts";
import { isSuccess, uploadError } from "../../net/http-status.ts";
import type { SenderAnswer } from "./sender.ts";

/** What our endpoint says about a file it has. Others may say anything, or nothing. */
const isAnswer = isShaped({
  size: isOptional(isNumber),
  sha256: isOptional((value): value is string => isText(value) && /^[0-9a-f]{64}$/i.test(value)),
});

/** Throws unless all was sent and taken: the fault for the status, `protocol` for a success before the last byte. */
export function ensureTaken(answer: SenderAnswer): void {
  if (!isSuccess(answer.status)) throw uploadError(answer);
  if (!answer.sentAll)
    throw new SluiceError(
      "protocol",
      "client: the server claims to have the whole file before it was sent",
    );
}

/** The same for one file. Throws `corrupt`, too, where the answer names another size or digest. */
export function ensureReceived(
  answer: SenderAnswer,
  file: { readonly size: number; readonly sha256?: string },
): void {
  ensureTaken(answer);
  if (!isAnswer(answer.json)) return;
  const { size, sha256 } = answer.json;
  const isOther =
    (size !== undefined && size !== file.size) ||
    (sha256 !== undefined && file.sha256 !== undefined && sha256.toLowerCase() !== file.sha256);
  if (isOther)
    throw new SluiceError(
      "corrupt",
      "client: the file did not arrive as it was sent; send it again",
    );
}
