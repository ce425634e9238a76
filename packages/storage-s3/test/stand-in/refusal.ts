/** A refusal of the stand-in, in the words of S3. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: number;
  readonly code: string;
  /** Further elements of the answer. */
  readonly details: Readonly<Record<string, string>>;

  constructor(
    status: number,
    code: string,
    message = code,
    details: Readonly<Record<string, string>> = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}
