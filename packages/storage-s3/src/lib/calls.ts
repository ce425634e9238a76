import type { Readable } from "node:stream";
import {
  type $Command,
  type S3Client,
  type S3ClientResolvedConfig,
  type ServiceInputTypes,
  type ServiceOutputTypes,
} from "@aws-sdk/client-s3";
import { SluiceError } from "@sluice/core";
import { systemClock, within } from "@sluice/core/async";
import { isStaleCredentials, toSluiceError } from "./s3-error.ts";

/** Longest wait for the head of an answer, in milliseconds. */
const answerMs = 60_000;

type Credentials = Awaited<ReturnType<S3ClientResolvedConfig["credentials"]>>;

/** One call, as it is named in errors and ended. */
interface Call {
  /** How its errors start: `s3: open "a.txt"`. */
  readonly who: string;
  readonly signal?: AbortSignal | undefined;
  /** Longest wait for the head of the answer, in milliseconds. 60 s unless told. */
  readonly timeoutMs?: number;
}

/** Sends commands: once, with a deadline, and with errors of Sluice. */
export interface Calls {
  /**
   * Sends a command. An abort rejects at once with `signal.reason`, whatever the SDK is doing. The
   * signal ends the call, not a body that the answer brings.
   */
  send<Input extends ServiceInputTypes, Output extends ServiceOutputTypes>(
    command: $Command<Input, Output, S3ClientResolvedConfig, ServiceInputTypes, ServiceOutputTypes>,
    call: Call,
  ): Promise<Output>;
  /** The credentials that sign now. */
  credentials(call: Call): Promise<Credentials>;
  readonly client: S3Client;
}

/** Creates calls over a client, which is looked at once: it must neither repeat nor check what Sluice repeats and checks. */
export function createCalls(client: S3Client): Calls {
  let checked: Promise<void> | undefined;

  const credentials = (call: Call): Promise<Credentials> =>
    wait(client.config.credentials(), call, () => {});

  /** Credentials that may do better than those that were refused, if there are any. */
  const hasOthers = async (refused: Credentials, call: Call): Promise<boolean> => {
    // another call may have renewed them already
    if (isOther(refused, await credentials(call))) return true;
    const renewed = client.config.credentials({ forceRefresh: true });
    return isOther(refused, await wait(renewed, call, () => {}));
  };

  return {
    client,
    credentials,
    async send(command, call) {
      call.signal?.throwIfAborted();
      await (checked ??= ensureSettings(client));
      const attempt = async () => {
        const ending = new AbortController();
        try {
          const answer = client.send(command, { abortSignal: ending.signal });
          return await wait(answer, call, discard);
        } catch (error) {
          ending.abort();
          throw error;
        }
      };
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
        throw toSluiceError(error, call.who);
      }
    },
  };
}

function wait<T>(work: Promise<T>, call: Call, late: (value: T) => void): Promise<T> {
  const { who, signal, timeoutMs = answerMs } = call;
  const expired = (): SluiceError =>
    new SluiceError("timeout", `${who}: no answer came for ${timeoutMs} ms`);
  return within(work, { clock: systemClock, timeoutMs, expired, signal }, late);
}

/** Lets go of an answer that nobody waits for any more. */
function discard(late: ServiceOutputTypes): void {
  if ("Body" in late) (late.Body as Readable | undefined)?.destroy();
}

function isOther(one: Credentials, other: Credentials): boolean {
  return one.accessKeyId !== other.accessKeyId || one.sessionToken !== other.sessionToken;
}

async function ensureSettings({ config }: S3Client): Promise<void> {
  const wanted = {
    maxAttempts: [await config.maxAttempts(), 1],
    requestChecksumCalculation: [await config.requestChecksumCalculation(), "WHEN_REQUIRED"],
    responseChecksumValidation: [await config.responseChecksumValidation(), "WHEN_REQUIRED"],
  };
  for (const [name, [is, ought]] of Object.entries(wanted))
    if (is !== ought)
      throw new SluiceError(
        "invalid_argument",
        `s3: the client has ${name} ${is}; create it with ${name}: ${JSON.stringify(ought)}`,
      );
}
