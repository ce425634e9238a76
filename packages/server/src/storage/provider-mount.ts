import type { ResourceTemplateType } from "@modelcontextprotocol/server";
import { definedMembers } from "@sluice/core/internal";
import { withDigestCheck } from "@sluice/storage/internal";
import { createAccess } from "../access/access.ts";
import { createProviderBackend } from "../provide/provider-backend.ts";
import { createProviderRoute, type ProviderRoute } from "../provide/provider-route.ts";
import { toProvider, type Provider } from "../provide/provider.ts";
import { createStorageAccess } from "./authorized-storage.ts";
import { ensureDeliveryOptions } from "./delivery-policy.ts";
import {
  defaultMaxReadBytes,
  hasAccessRules,
  namePrefixOf,
  type AccessRules,
  type MountSetting,
  type ServingRules,
} from "./mount.ts";
import type { ProviderMount } from "./mounts.ts";
import { createResourceEntries } from "./resource-metadata.ts";

/** A provider, and its rules; what it leaves out is as the options of the Sluice say. */
export type ProviderOptions = Provider &
  AccessRules &
  Pick<ServingRules, "delivery" | "maxReadBytes"> & {
    /** Exact origins that its URLs may be of, without a path or a slash at the end. Default: those that the Sluice names. */
    readonly redirectOrigins?: readonly string[];
  };

/** Makes a mount of a provider; a function is its `open`. Throws a `TypeError` or `RangeError` that says what to give. */
export function providerMount(
  uriOrTemplate: string,
  given: ProviderOptions | Provider["open"],
  { rules, onError }: Omit<MountSetting, "namePrefix">,
): ProviderMount {
  const provider: ProviderOptions = toProvider(uriOrTemplate, given);
  ensureDeliveryOptions(provider);
  if (provider.redirectOrigins === ("storage" as never))
    throw new TypeError(
      'sluice.provide: redirectOrigins is "storage", which a provider does not have: name the origins of its URLs',
    );
  const route = createProviderRoute(uriOrTemplate);
  const { mapper } = route;
  const { access: rule, accessPage } = hasAccessRules(provider) ? provider : rules;
  const access = createAccess(rule, accessPage);
  const { title, description } = provider;
  return {
    mapper,
    template: templateOf(provider, route),
    kind: "provider",
    isForAll: true,
    isFor: (canonicalUri) => route.match(canonicalUri) !== undefined,
    namePrefix: namePrefixOf(uriOrTemplate),
    access,
    storageAccess: createStorageAccess({
      // the digest that a provider tells is compared; nothing is repeated
      storage: (principal) =>
        withDigestCheck(createProviderBackend({ provider, route, principal })),
      access,
      mapper,
      isMade: true,
    }),
    entries: createResourceEntries({
      mapper,
      describe: () => definedMembers({ title, description }),
      onError,
    }),
    delivery: provider.delivery ?? rules.delivery ?? "auto",
    redirectOrigins: provider.redirectOrigins ?? rules.redirectOrigins ?? [],
    maxReadBytes: provider.maxReadBytes ?? rules.maxReadBytes ?? defaultMaxReadBytes,
    limiter: undefined,
  };
}

function templateOf(
  { title, description, mimeType }: Provider,
  { template }: ProviderRoute,
): ResourceTemplateType | undefined {
  if (template === undefined) return undefined;
  return {
    name: template,
    uriTemplate: template,
    ...definedMembers({ title, description, mimeType }),
  };
}
