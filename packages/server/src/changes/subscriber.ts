import { SluiceError, type Principal } from "@sluice/core";
import { definedMembers, Notifier } from "@sluice/core/internal";
import type { ObjectInfo, StorageBackend } from "@sluice/storage";
import { allowedUris, type AccessAction } from "../access/access.ts";
import { hiddenFault } from "../faults/storage-fault.ts";
import type { Mount } from "../storage/mount.ts";
import type { Mounts, Place } from "../storage/mounts.ts";
import {
  createChangeHub,
  type ChangeHub,
  type ChangeHubOptions,
  type ChangeListener,
  type ObjectChanges,
} from "./change-hub.ts";

type ChangeNotification =
  | {
      readonly method: "notifications/resources/updated";
      readonly params: { readonly uri: string };
    }
  | { readonly method: "notifications/resources/list_changed"; readonly params?: undefined };

/** One client that hears of changes: a session, a connection or a stream. */
export interface Subscriber {
  /** Follows a resource under the URI by which the client knows it. Throws `throttled` above 1,000. */
  follow(uri: string, found: FoundResource): void;
  unfollow(uri: string): void;
  /** Hears from now on when the list changes, and with `everything` of every resource. */
  hearLists(everything?: boolean): void;
  /** From now on access is asked for this principal; subscriptions in storage that it does not have end. Never throws. */
  actFor(principal: Principal | undefined): void;
  /** The next notification; `undefined` once it is closed. Access is asked just before. */
  next(): Promise<ChangeNotification | undefined>;
  close(): void;
}

/** Resources that one client follows. */
export const maxUris = 1_000;
/** Changes that access rules are asked about at once. */
const askedTogether = 100;
/** Resources that wait for a client that takes nothing; more are told as a change of the list. */
const maxPending = 10_000;

interface SubscriptionRequest {
  readonly uri: string;
  readonly principal: Principal | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface FoundResource {
  readonly place: Place;
  readonly info: ObjectInfo;
}

interface SubscribersOptions extends Pick<ChangeHubOptions, "runApart" | "onError"> {
  readonly mounts: Mounts;
}

/** Where changes of a mount are heard for a principal; `undefined` if it has no such mount. */
type HubOf = (mount: Mount, principal: Principal | undefined) => ChangeHub | undefined;

/** Makes subscribers, and finds what they may follow. */
export class Subscribers {
  readonly #options: SubscribersOptions;
  /** One for all principals and mounts that use a backend. */
  readonly #hubs = new WeakMap<StorageBackend, ChangeHub>();

  constructor(options: SubscribersOptions) {
    this.#options = options;
  }

  /**
   * Makes a subscriber that is not told anything yet. Changes that it has not taken are coalesced: each
   * resource once, the list once.
   */
  create(principal: Principal | undefined): Subscriber {
    return createSubscriber(this.#options, (...asked) => this.#hubOf(...asked), principal);
  }

  /** The resource of a URI that may be subscribed to; a hidden one rejects like a missing one. */
  async find({ uri, principal, signal }: SubscriptionRequest): Promise<FoundResource> {
    const place = this.#options.mounts.placeFor(uri, principal);
    const { key, mount } = place;
    if (mount.kind === "provider")
      throw new SluiceError("unsupported", "sluice: subscribe: it is generated on demand");
    const storage = await mount.storageAccess.authorize({ principal, key, action: "subscribe" });
    return { place, info: await storage.describe(key, definedMembers({ signal })) };
  }

  #hubOf({ storageAccess }: Mount, principal: Principal | undefined): ChangeHub | undefined {
    const backend = storageAccess.backendFor(principal);
    if (!backend) return undefined;
    let hub = this.#hubs.get(backend);
    if (!hub) this.#hubs.set(backend, (hub = createChangeHub(backend, this.#options)));
    return hub;
  }
}

/** Changes of one mount on their way to one client. */
interface Feed {
  readonly mount: Mount;
  readonly hub: ChangeHub;
  readonly listener: ChangeListener & { hearsAll: boolean; hearsList: boolean };
}

/** Resources by their canonical URIs, with the feeds that told of them. */
type Resources = Map<string, Feed>;

function createSubscriber(
  { mounts, onError }: SubscribersOptions,
  hubOf: HubOf,
  principal: Principal | undefined,
): Subscriber {
  const feeds = new Map<Mount, Feed>();
  const followed = new Map<string, { readonly feed: Feed; readonly key: string }>();
  let queue: ChangeNotification[] = [];
  let updated: Resources = new Map();
  let listChanges: Resources | "unknown" = new Map();
  let hearsAll = false;
  let hearsList = false;
  let isClosed = false;
  const news = new Notifier();

  function take(feed: Feed, changes: ObjectChanges): void {
    const { mapper } = feed.mount;
    for (const key of changes.updated) updated.set(mapper.toUri(key), feed);
    if (changes.listed === "unknown" || updated.size > maxPending) listChanges = "unknown";
    else if (listChanges !== "unknown")
      for (const key of changes.listed) listChanges.set(mapper.toUri(key), feed);
    if (listChanges !== "unknown" && listChanges.size > maxPending) listChanges = "unknown";
    if (updated.size > maxPending) updated = new Map();
    news.notify();
  }

  function feedOf(mount: Mount): Feed {
    const hub = hubOf(mount, principal);
    const knownFeed = feeds.get(mount);
    if (knownFeed && knownFeed.hub === hub) return knownFeed;
    if (knownFeed) drop(knownFeed);
    if (!hub) throw hiddenFault;
    const onChanges = (changes: ObjectChanges): void => take(feed, changes);
    const feed: Feed = { mount, hub, listener: { hearsAll, hearsList, onChanges } };
    feeds.set(mount, feed);
    return feed;
  }

  /** Ends a feed from storage that the principal does not have any more. */
  function drop(feed: Feed): void {
    const { hub, listener, mount } = feed;
    hub.leave(listener);
    feeds.delete(mount);
    for (const [uri, one] of followed) if (one.feed === feed) followed.delete(uri);
    const { baseUri } = mount.mapper;
    queue = queue.filter(({ params }) => params?.uri.startsWith(baseUri) !== true);
  }

  function dropOld(): void {
    for (const feed of feeds.values()) if (hubOf(feed.mount, principal) !== feed.hub) drop(feed);
  }

  const isLive = (feed: Feed): boolean => feeds.get(feed.mount) === feed;

  const isQuiet = (): boolean =>
    updated.size === 0 && listChanges !== "unknown" && listChanges.size === 0;

  /** Those of some resources with which the principal may do something now. */
  async function allowedOf(resources: Resources, action: AccessAction): Promise<string[]> {
    dropOld();
    const allowed: string[] = [];
    for (const feed of new Set(resources.values())) {
      if (!isLive(feed)) continue;
      const uris = [...resources].filter(([, of]) => of === feed).map(([uri]) => uri);
      const visible = await allowedUris(feed.mount.access, principal, { uris, action });
      // the storage of the principal can have changed while access was asked
      if (isLive(feed)) allowed.push(...visible);
    }
    return allowed;
  }

  /** URIs that changed, by the names that the client gave them. */
  async function allowedUpdates(changed: Resources): Promise<string[]> {
    const allowed = new Set(await allowedOf(changed, "subscribe"));
    if (hearsAll) return [...allowed];
    return [...followed]
      .filter(([, { feed, key }]) => allowed.has(feed.mount.mapper.toUri(key)))
      .map(([uri]) => uri);
  }

  /** Tells of a changed list only when the principal may see some of what changed in it. */
  async function isListNews(changed: Resources | "unknown"): Promise<boolean> {
    if (changed === "unknown") return true;
    const all = [...changed];
    for (let at = 0; at < all.length; at += askedTogether) {
      const some = new Map(all.slice(at, at + askedTogether));
      if ((await allowedOf(some, "list")).length > 0) return true;
    }
    return false;
  }

  async function fill(): Promise<void> {
    // few at a time: access is asked just before a slow client takes them
    const some: Resources = new Map([...updated].slice(0, askedTogether));
    for (const uri of some.keys()) updated.delete(uri);
    const list = listChanges;
    listChanges = new Map();
    for (const uri of await allowedUpdates(some))
      queue.push({ method: "notifications/resources/updated", params: { uri } });
    if (hearsList && (await isListNews(list)))
      queue.push({ method: "notifications/resources/list_changed" });
  }

  return {
    follow(uri, { place: { mount }, info }) {
      if (isClosed)
        throw new SluiceError("unavailable", "sluice: subscribe: the connection is gone");
      if (followed.has(uri)) return;
      if (followed.size >= maxUris)
        throw new SluiceError("throttled", `sluice: subscribe: more than ${maxUris} resources`);
      const feed = feedOf(mount);
      feed.hub.follow(feed.listener, info);
      followed.set(uri, { feed, key: info.key });
    },
    unfollow(uri) {
      const removed = followed.get(uri);
      if (!removed) return;
      followed.delete(uri);
      const { feed, key } = removed;
      const isLast = ![...followed.values()].some((one) => one.feed === feed && one.key === key);
      if (isLast) feed.hub.unfollow(feed.listener, key);
    },
    hearLists(everything = false) {
      hearsList = true;
      hearsAll ||= everything;
      for (const mount of mounts.storages) {
        if (!hubOf(mount, principal)) continue;
        const { hub, listener } = feedOf(mount);
        Object.assign(listener, { hearsAll, hearsList });
        hub.join(listener);
      }
    },
    actFor(now) {
      principal = now;
      try {
        dropOld();
      } catch (error) {
        // no call fails for a mount that it is not about
        onError(error);
      }
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
      for (const { hub, listener } of feeds.values()) hub.leave(listener);
      followed.clear();
      news.notify();
    },
  };
}
