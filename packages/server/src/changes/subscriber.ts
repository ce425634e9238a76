import { definedMembers, SluiceError, type Principal } from "@sluice/core";
import { Notifier } from "@sluice/core/async";
import type { ObjectInfo, StorageBackend, UriMapper } from "@sluice/storage";
import { allowedUris, type Access } from "../access/access.ts";
import type { StorageAccess } from "../access/authorized-storage.ts";
import {
  createChangeHub,
  type ChangeHub,
  type ChangeHubOptions,
  type ChangeListener,
  type ObjectChanges,
} from "./change-hub.ts";

/** A change as the protocol tells it. */
type ChangeNotification =
  | {
      readonly method: "notifications/resources/updated";
      readonly params: { readonly uri: string };
    }
  | { readonly method: "notifications/resources/list_changed"; readonly params?: undefined };

/** One client that hears of changes: a session, a connection or a stream. */
export interface Subscriber {
  readonly hub: ChangeHub;
  /** Follows a resource under the URI by which the client knows it. Throws `throttled` above 1,000. */
  follow(uri: string, info: ObjectInfo): void;
  unfollow(uri: string): void;
  /** Hears from now on when the list changes, and with `everything` of every resource. */
  hearLists(everything?: boolean): void;
  /** From now on access is asked for this principal. */
  actFor(principal: Principal | undefined): void;
  /** The next notification; `undefined` once it is closed. Access is asked just before. */
  next(): Promise<ChangeNotification | undefined>;
  close(): void;
}

/** Resources that one client follows. */
export const mostUris = 1_000;
/** Changes that access rules are asked about at once. */
const askedTogether = 100;
/** Keys that wait for a client that takes nothing; more are told as a change of the list. */
const mostPending = 10_000;

/** Makes subscribers, and finds what they may follow. */
export interface Subscribers {
  /** Where changes of the storage of a principal are heard: one hub for all principals that use a backend. */
  hubOf(principal: Principal | undefined): ChangeHub;
  /**
   * Makes a subscriber that is not told anything yet. Changes that it has not taken are coalesced: each
   * resource once, the list once.
   */
  create(principal: Principal | undefined): Subscriber;
  /** The object behind a URI that may be subscribed to; a hidden one rejects like a missing one. */
  find(request: SubscriptionRequest): Promise<ObjectInfo>;
}

interface SubscriptionRequest {
  readonly uri: string;
  readonly principal: Principal | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface SubscribersOptions extends Pick<ChangeHubOptions, "runApart" | "onError"> {
  readonly storages: StorageAccess;
  readonly access: Access;
  readonly mapper: UriMapper;
}

export function createSubscribers(options: SubscribersOptions): Subscribers {
  const { storages, mapper } = options;
  const hubs = new WeakMap<StorageBackend, ChangeHub>();

  function hubOf(principal: Principal | undefined): ChangeHub {
    const backend = storages.of(principal);
    let hub = hubs.get(backend);
    if (!hub) hubs.set(backend, (hub = createChangeHub(backend, options)));
    return hub;
  }

  return {
    hubOf,
    create: (principal) => createSubscriber(options, hubOf(principal), principal),
    async find({ uri, principal, signal }) {
      const key = mapper.toKey(uri);
      const storage = await storages.authorize({ principal, key, action: "subscribe" });
      return storage.describe(key, definedMembers({ signal }));
    },
  };
}

function createSubscriber(
  { access, mapper, onError }: SubscribersOptions,
  hub: ChangeHub,
  principal: Principal | undefined,
): Subscriber {
  const canonical = (key: string): string => mapper.toUri(key);
  const keyOf = new Map<string, string>();
  const queue: ChangeNotification[] = [];
  let updated = new Set<string>();
  let listed: Set<string> | "unknown" = new Set();
  let isClosed = false;
  const news = new Notifier();

  const listener = {
    hearsAll: false as boolean,
    hearsList: false as boolean,
    onChanges(changes: ObjectChanges) {
      for (const key of changes.updated) updated.add(key);
      if (changes.listed === "unknown" || updated.size > mostPending) listed = "unknown";
      else if (listed !== "unknown") for (const key of changes.listed) listed.add(key);
      if (listed !== "unknown" && listed.size > mostPending) listed = "unknown";
      if (updated.size > mostPending) updated = new Set();
      news.notify();
    },
  } satisfies ChangeListener;

  const isQuiet = (): boolean => updated.size === 0 && listed !== "unknown" && listed.size === 0;

  /** URIs that changed, by the names that the client gave them. */
  async function allowedUpdates(keys: ReadonlySet<string>): Promise<string[]> {
    const uris = [...keys].map(canonical);
    const allowed = new Set(await allowedUris(access, principal, { uris, action: "subscribe" }));
    if (listener.hearsAll) return [...allowed];
    return [...keyOf]
      .filter(([, key]) => keys.has(key) && allowed.has(canonical(key)))
      .map(([uri]) => uri);
  }

  /** Tells of a changed list only when the principal may see some of what changed in it. */
  async function isListNews(keys: ReadonlySet<string> | "unknown"): Promise<boolean> {
    if (keys === "unknown") return true;
    const all = [...keys].map(canonical);
    for (let at = 0; at < all.length; at += askedTogether) {
      const uris = all.slice(at, at + askedTogether);
      if ((await allowedUris(access, principal, { uris, action: "list" })).length > 0) return true;
    }
    return false;
  }

  async function fill(): Promise<void> {
    // few at a time: access is asked just before a slow client takes them
    const keys = new Set([...updated].slice(0, askedTogether));
    for (const key of keys) updated.delete(key);
    const list = listed;
    listed = new Set();
    for (const uri of await allowedUpdates(keys))
      queue.push({ method: "notifications/resources/updated", params: { uri } });
    if (listener.hearsList && (await isListNews(list)))
      queue.push({ method: "notifications/resources/list_changed" });
  }

  return {
    hub,
    follow(uri, info) {
      if (isClosed)
        throw new SluiceError("unavailable", "sluice: subscribe: the connection is gone");
      if (keyOf.has(uri)) return;
      if (keyOf.size >= mostUris)
        throw new SluiceError("throttled", `sluice: subscribe: more than ${mostUris} resources`);
      hub.follow(listener, info);
      keyOf.set(uri, info.key);
    },
    unfollow(uri) {
      const key = keyOf.get(uri);
      if (key === undefined) return;
      keyOf.delete(uri);
      if (![...keyOf.values()].includes(key)) hub.unfollow(listener, key);
    },
    hearLists(everything = false) {
      listener.hearsList = true;
      listener.hearsAll ||= everything;
      hub.join(listener);
    },
    actFor(now) {
      principal = now;
    },
    async next() {
      for (;;) {
        if (isClosed) return undefined;
        if (queue.length > 0) return queue.shift();
        if (isQuiet()) await news.wait();
        else await fill().catch(onError);
      }
    },
    close() {
      isClosed = true;
      hub.leave(listener);
      keyOf.clear();
      news.notify();
    },
  };
}
