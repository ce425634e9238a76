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

/** Sends commands: once, with a deadline, and with errors of Sluice. */
export interface Calls {
  /**
   * Sends a command. An abort rejects at once with `signal.reason`, whatever the SDK is doing. The
   * signal ends the call, not a body that the answer brings.
   */
  send<Input extends ServiceInputTypes, Output extends ServiceOutputTypes>(
    command: $Command<Input, Output, S3ClientResolvedConfig, ServiceInputTypes, ServiceOutputTypes>,
    call: ServiceCall,
  ): Promise<Output>;
  /** The credentials that sign now. */
  credentials(call: ServiceCall): Promise<S3Credentials>;
  readonly client: S3Client;
}

/** Creates calls over a client. Its settings are checked once: retries and checksums are the work of Sluice. */
export function createCalls(client: S3Client): Calls {
  let checked: Promise<void> | undefined;

  const credentials = (call: ServiceCall, forceRefresh = false): Promise<S3Credentials> =>
    callService(call, () => client.config.credentials({ forceRefresh }));

  /** Credentials that may do better than those that were refused, if there are any. */
  const hasOthers = async (refused: S3Credentials, call: ServiceCall): Promise<boolean> => {
    // another call may have renewed them already
    if (isOther(refused, await credentials(call))) return true;
    return isOther(refused, await credentials(call, true));
  };

  return {
    client,
    credentials,
    async send(command, call) {
      call.signal?.throwIfAborted();
      await (checked ??= ensureSettings(client));
      // the answer of the SDK decides whether other credentials may help, so its errors are mapped after that
      const attempt = () =>
        callService(call, (abortSignal) => client.send(command, { abortSignal }), { discard });
      try {
        const used = await credentials(call);
        try {
          return await attempt();
        } catch (error) {
          if (!isStaleCredentials(error) || !(await hasOthers(used, call))) throw error;
          return await attempt();
        }
      } catch (error) {
        call.signal?.throwIfAborted();
        throw toSluiceError(error, call.operation);
      }
    },
  };
}

/** Frees the socket of an answer that comes after the end of the call. */
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
  for (const [name, [is, ought]] of Object.entries(settings))
    if (is !== ought)
      throw new SluiceError(
        "invalid_argument",
        `s3: the client has ${name} ${is}; create it with ${name}: ${JSON.stringify(ought)}`,
      );
}
