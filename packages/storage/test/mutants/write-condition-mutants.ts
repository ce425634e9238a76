import { SluiceError } from "@sluice/core";
import type { ObjectInfo, Overrides, StorageBackend } from "@sluice/storage";
import type { Service } from "../reference-service.ts";
import { peek, type PromiseMutants } from "./promise-mutants.ts";

/** Loses or adds conditions of a write, by the stored object. */
function conditions(
  service: Service,
  change: (
    key: string,
    options: NonNullable<Parameters<NonNullable<StorageBackend["write"]>>[1]>,
    present: ObjectInfo | undefined,
  ) =>
    | Promise<Parameters<NonNullable<StorageBackend["write"]>>[1]>
    | Parameters<NonNullable<StorageBackend["write"]>>[1],
): Overrides {
  return {
    write:
      (write) =>
      async (key, options = {}) =>
        write(key, await change(key, options, (await peek(service, key))?.info)),
  };
}

/** Backends that are wrong about the conditions of a write. */
export const writeConditionMutants: PromiseMutants = {
  "Create only, else `precondition_failed`": {
    "write-condition-exact": {
      "takes an empty object for none with ifAbsent": (service) =>
        conditions(service, (_, { ifAbsent, ...options }, present) =>
          ifAbsent && present?.size !== 0 ? { ...options, ifAbsent } : options,
        ),
      "takes an object whose key only begins with the key for the object, with ifAbsent": (
        service,
      ) =>
        conditions(service, async (key, options) => {
          const { objects } = await service.store.list({ prefix: key, limit: 1 });
          if (options.ifAbsent && objects.length > 0)
            throw new SluiceError("precondition_failed", "memory: write: it exists");
          return options;
        }),
      "takes an object whose key differs in case for the object, with ifAbsent": (service) =>
        conditions(service, async (key, options) => {
          const { objects } = await service.store.list();
          if (options.ifAbsent && objects.some((o) => o.key.toLowerCase() === key.toLowerCase()))
            throw new SluiceError("precondition_failed", "memory: write: it exists");
          return options;
        }),
    },
  },
  "Replace only this version, else `precondition_failed`": {
    "write-condition-exact": {
      "takes an empty ifMatch for none": (service) =>
        conditions(service, (_, { ifMatch, ...options }) =>
          ifMatch ? { ...options, ifMatch } : options,
        ),
      "takes the ifMatch * for any version": (service) =>
        conditions(service, (_, { ifMatch, ...options }, present) =>
          ifMatch !== undefined && (ifMatch !== "*" || !present)
            ? { ...options, ifMatch }
            : options,
        ),
      "takes quotes and W/ off the ifMatch of a write": (service) =>
        conditions(service, (_, options) =>
          options.ifMatch === undefined
            ? options
            : { ...options, ifMatch: options.ifMatch.replace(/^(W\/)?"(.*)"$/, "$2") },
        ),
      "compares the beginning of the ifMatch of a write": (service) =>
        conditions(service, (_, options, present) => {
          const { ifMatch, ...rest } = options;
          const etag = present?.etag ?? "";
          return ifMatch !== etag && etag !== "" && ifMatch?.startsWith(etag) ? rest : options;
        }),
      "forgets ifMatch over an empty object": (service) =>
        conditions(service, (_, { ifMatch, ...options }, present) =>
          ifMatch !== undefined && present?.size !== 0 ? { ...options, ifMatch } : options,
        ),
    },
  },
};
