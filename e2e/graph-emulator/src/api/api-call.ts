import type { DriveState, Item } from "../drive/drive.ts";
import type { DownloadHost } from "../hosts/download-host.ts";
import { errorBody } from "../hosts/hosts.ts";
import type { UploadHost } from "../hosts/upload-host.ts";
import type { EmulatedSubscriptions } from "./subscriptions.ts";

/** A call of the API, also one inside a batch. */
export interface ApiCall {
  readonly method: string;
  /** Path and query, raw. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** What it is answered with. */
export interface ApiAnswer {
  readonly status: number;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  /** Bytes instead of JSON (`/beta/…/contentStream`). */
  readonly stream?: Item;
}

/** What the API stands on. */
export interface ApiParts {
  readonly drives: ReadonlyMap<string, DriveState>;
  readonly origin: () => string;
  readonly downloads: DownloadHost;
  readonly uploads: UploadHost;
  readonly subscriptions: EmulatedSubscriptions;
  /** The name after which each link to another page goes on, by the raw link. */
  readonly links: Map<string, string>;
  /** Items in a page without `$top`. */
  readonly pageSize: number;
}

/** A call about an item of a drive. */
export interface ItemCall extends ApiCall {
  readonly drive: DriveState;
  /** Where the path begins. */
  readonly from: Item;
  readonly segments: readonly string[];
  readonly query: URLSearchParams;
  /** The path alone. */
  readonly base: string;
  /** The query as it came. */
  readonly search: string;
}

/** A refusal as Graph writes it. */
export const fail = (status: number, code: string, inner?: string): ApiAnswer => ({
  status,
  body: errorBody(code, inner),
});
