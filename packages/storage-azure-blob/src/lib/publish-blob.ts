import { SluiceError } from "@sluice/core";
import type { Repeat } from "@sluice/storage";
import { publishIf, publishOnce, type ServiceCall, unlessMissing } from "@sluice/storage/plugin";
import type { BlobCall } from "./container.ts";
import type { BlobFacts } from "./object-info.ts";
import { request } from "./request.ts";

/** Metadata of a blob that was made under a condition: it tells a repetition that its blob is there already. */
const mark = "sluice_write";

interface PublishConditions {
  readonly ifMatch?: string;
  readonly ifNoneMatch?: string;
}

/** The request that makes a blob. */
export interface Publication {
  readonly repeat: Repeat;
  readonly upload: ServiceCall;
  readonly conditions: PublishConditions;
  /** Only of this writer. */
  readonly writerId: string;
  readonly headers: object;
  readonly send: (options: {
    readonly conditions: PublishConditions;
    readonly metadata?: Record<string, string>;
    readonly blobHTTPHeaders: object;
    readonly abortSignal: AbortSignal;
  }) => Promise<BlobFacts>;
}

/** Makes a blob once, however often its response is lost, and gives its metadata from the service. */
export async function publishBlob(
  { operation, blob }: BlobCall,
  { repeat, upload, conditions, writerId, headers: blobHTTPHeaders, send }: Publication,
): Promise<BlobFacts> {
  const { ifMatch, ifNoneMatch } = conditions;
  const isConditional = ifMatch !== undefined || ifNoneMatch !== undefined;
  const metadata = { [mark]: writerId };
  const publish = async (): Promise<BlobFacts> => {
    const publication = request(upload, (abortSignal) =>
      send({ conditions, blobHTTPHeaders, abortSignal, ...(isConditional && { metadata }) }),
    );
    const facts = await publishIf({ ifMatch }, operation, publication);
    // without a tag it is the response of something else, and nothing was written
    if (facts.etag) return facts;
    throw new SluiceError("unavailable", `${operation}: the answer does not name the blob`);
  };
  const find = async (): Promise<BlobFacts | undefined> => {
    const facts = request(upload, (abortSignal) => blob.getProperties({ abortSignal }));
    const blobFacts = await unlessMissing(facts);
    return blobFacts?.metadata?.[mark] === writerId ? blobFacts : undefined;
  };
  return isConditional ? publishOnce(repeat, publish, find) : repeat(publish);
}
