import type { Readable } from "node:stream";
import {
  type $Command,
  type S3Client,
  type S3ClientResolvedConfig,
  type ServiceInputTypes,
  type ServiceOutputTypes,
} from "@aws-sdk/client-s3";
import { SluiceError } from "@sluice/core";
import { callService, type ServiceCall } from "@sluice/storage/plugin";
import { isStaleCredentials, toSluiceError } from "./s3-error.ts";

type S3Credentials = Awaited<ReturnType<S3ClientResolvedConfig["credentials"]>>;

/** Sends commands: once, with a deadline, and with errors of Sluice. Retries and checksums are the work of Sluice. */
export class Calls {
  readonly client: S3Client;
  #settingsCheck: Promise<void> | undefined;

  constructor(client: S3Client) {
    this.client = client;
  }

  credentials(call: ServiceCall, forceRefresh = false): Promise<S3Credentials> {
    return callService(call, () => this.client.config.credentials({ forceRefresh }));
  }

  /**
   * Sends a command. An abort rejects at once with `signal.reason`, whatever the SDK is doing. The
   * signal ends the call, not a body that the response brings.
   */
  async send<Input extends ServiceInputTypes, Output extends ServiceOutputTypes>(
    command: $Command<Input, Output, S3ClientResolvedConfig, ServiceInputTypes, ServiceOutputTypes>,
    call: ServiceCall,
  ): Promise<Output> {
    call.signal?.throwIfAborted();
    await (this.#settingsCheck ??= ensureSettings(this.client));
    // isStaleCredentials needs the SDK's own error, so errors are mapped last
    const attempt = (): Promise<Output> =>
      callService(call, (abortSignal) => this.client.send(command, { abortSignal }), { discard });
    try {
      const usedCredentials = await this.credentials(call);
      try {
        return await attempt();
      } catch (error) {
        if (!isStaleCredentials(error) || !(await this.#hasOtherCredentials(usedCredentials, call)))
          throw error;
        return await attempt();
      }
    } catch (error) {
      call.signal?.throwIfAborted();
      throw toSluiceError(error, call.operation);
    }
  }

  /** Whether there are credentials that may do better than those that were refused. */
  async #hasOtherCredentials(refused: S3Credentials, call: ServiceCall): Promise<boolean> {
    // another call may have renewed them already
    if (isOther(refused, await this.credentials(call))) return true;
    return isOther(refused, await this.credentials(call, true));
  }
}

/** Frees the socket of a response that comes after the end of the call. */
function discard(late: ServiceOutputTypes): void {
  if ("Body" in late) (late.Body as Readable | undefined)?.destroy();
}

function isOther(one: S3Credentials, other: S3Credentials): boolean {
  return one.accessKeyId !== other.accessKeyId || one.sessionToken !== other.sessionToken;
}

async function ensureSettings({ config }: S3Client): Promise<void> {
  const settings = {
    maxAttempts: [await config.maxAttempts(), 1],
    requestChecksumCalculation: [await config.requestChecksumCalculation(), "WHEN_REQUIRED"],
    responseChecksumValidation: [await config.responseChecksumValidation(), "WHEN_REQUIRED"],
  };
  for (const [name, [actual, required]] of Object.entries(settings))
    if (actual !== required)
      throw new SluiceError(
        "invalid_argument",
        `s3: the client has ${name} ${actual}; create it with ${name}: ${JSON.stringify(required)}`,
      );
}
